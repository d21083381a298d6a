/* banned: functions that have no safe use here become compile errors.
 *
 * Every source includes this header through base/slice.h. The list and the way to forbid a name follow git's banned.h:
 * unbounded copies, hidden static state, shells. System headers come first, because they may declare what we forbid.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BANNED(fn) use_of_##fn##_is_banned

#undef strcpy
#define strcpy(...) BANNED(strcpy)
#undef strcat
#define strcat(...) BANNED(strcat)
#undef strncpy
#define strncpy(...) BANNED(strncpy)
#undef strncat
#define strncat(...) BANNED(strncat)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef strtok
#define strtok(...) BANNED(strtok)
#undef gets
#define gets(...) BANNED(gets)
#undef atoi
#define atoi(...) BANNED(atoi)
#undef atol
#define atol(...) BANNED(atol)
#undef localtime
#define localtime(...) BANNED(localtime)
#undef gmtime
#define gmtime(...) BANNED(gmtime)
#undef system
#define system(...) BANNED(system)
#undef popen
#define popen(...) BANNED(popen)
#undef mktemp
#define mktemp(...) BANNED(mktemp)
#undef alloca
#define alloca(...) BANNED(alloca)
