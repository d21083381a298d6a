/* env: the verbs of `farhand env`. Each function gets the argc and argv of its verb (argv[0] is the name of the verb) and returns
 * the exit code. */
#pragma once

int env_list(int argc, char **argv);
int env_add(int argc, char **argv);
int env_check(int argc, char **argv);
