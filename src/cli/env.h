/* env: the verbs of `farhand env`. Each gets its own argc and argv (argv[0] is its name) and returns the exit code; `--help` prints
 * its help. */
#pragma once

int env_list(int argc, char **argv);
int env_add(int argc, char **argv);
int env_check(int argc, char **argv);
