/* connect: `farhand connect`: a door to an environment for programs that know only a URL. */
#pragma once

/* Gets argv from its own name on, and returns the exit code. */
int cmd_connect(int argc, char **argv);
