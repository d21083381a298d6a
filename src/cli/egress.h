/* egress: the verbs of `farhand egress`. Each gets the argc and argv of its verb (argv[0] is the name of the verb) and returns the exit
 * code. */
#pragma once

int egress_observe(int argc, char **argv);
