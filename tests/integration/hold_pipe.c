/* hold_pipe: keeps the kernel's lock of its own pipe, or of a FIFO, so that every read, write, open and last close of it by
 * others waits. Built and run by test_exhaustion_pipes.py.
 *
 * splice and sendfile between a pipe and a socket keep the lock of the pipe while they wait for the socket.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECONDS 20 /* the longest hold: then the alarm ends the holder, whatever the server does */

static int ends[2]; /* a pair of sockets: nothing to be read from [0] */

static void fill(void)
{
        static char bytes[4096];
        (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
        while (write(ends[0], bytes, sizeof(bytes)) > 0)
                continue;
        while (write(ends[0], bytes, 1) > 0)
                continue;
        (void)fcntl(ends[0], F_SETFL, 0);
}

/* Holds the lock of the pipe for `usec`, after which a signal ends the call; 0: until the process is killed. */
static void hold_output(int fd, unsigned usec)
{
        if (usec)
                (void)ualarm(usec, 0);
        else
                alarm(SECONDS);
        (void)splice(ends[0], NULL, fd, NULL, 4096, 0);
}

static void nothing(int signo)
{
        (void)signo;
}

/* Starts a child that holds the lock. Returns when the child holds it. */
static void held_by_child(void (*hold)(int fd), int fd)
{
        pid_t child = fork();
        if (child == 0) {
                alarm(SECONDS);
                hold(fd);
                _exit(0);
        }
        /* Only the state of the child shows that it is inside of the call. */
        char path[64], text[256];
        (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
        for (int i = 0; i < 2000; i++) {
                FILE *f = fopen(path, "r");
                char *state = f && fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
                if (f)
                        (void)fclose(f);
                if (state && state[2] == 'S' && i > 20)
                        return;
                (void)usleep(1000);
        }
}

static void hold_splice(int fd)
{
        hold_output(fd, 0);
}

static void hold_sendfile(int fd)
{
        alarm(SECONDS);
        (void)sendfile(fd, ends[0], NULL, 4096);
}

static void hold_input(int fd)
{
        alarm(SECONDS);
        (void)splice(fd, NULL, ends[0], NULL, 65536, 0);
}

/* Holds for a while, lets go for a moment, and so on. Another process writes whenever it can, so that the server reads. */
static void hold_again(int fd)
{
        if (fork() == 0) {
                alarm(SECONDS);
                for (;;)
                        (void)!write(fd, "x", 1);
        }
        const struct sigaction interrupts = { .sa_handler = nothing };
        (void)sigaction(SIGALRM, &interrupts, NULL);
        for (int i = 0; i < SECONDS * 3; i++) {
                hold_output(fd, 300000);
                (void)usleep(2000);
        }
}

static int hold_fifo(const char *path)
{
        (void)unlink(path);
        if (mkfifo(path, 0666) < 0)
                return 1;
        (void)chmod(path, 0666);
        int fd = open(path, O_RDWR);
        if (fd < 0)
                return 1;
        held_by_child(hold_splice, fd);
        (void)!write(1, "held\n", 5);
        alarm(SECONDS);
        for (;;)
                pause();
}

int main(int argc, char **argv)
{
        const char *mode = argc > 1 ? argv[1] : "";
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
                return 1;
        if (strcmp(mode, "fifo") == 0 && argc > 2)
                return hold_fifo(argv[2]);
        if (strcmp(mode, "stdout") == 0) { /* the command exits: the server reads what is left in the pipe, and closes it */
                held_by_child(hold_splice, 1);
        } else if (strcmp(mode, "stderr") == 0) {
                held_by_child(hold_splice, 2);
        } else if (strcmp(mode, "sendfile") == 0) {
                held_by_child(hold_sendfile, 1);
        } else if (strcmp(mode, "alive") == 0) { /* as in mode `stdout`, but the command lives, and nothing is in its pipe */
                held_by_child(hold_splice, 1);
                (void)!write(2, "held\n", 5);
                alarm(SECONDS);
                for (;;)
                        pause();
        } else if (strcmp(mode, "stdin") == 0) {
                char byte;
                (void)!read(0, &byte, 1);
                fill();
                held_by_child(hold_input, 0);
                (void)!write(1, "held\n", 5);
                alarm(SECONDS);
                for (;;)
                        pause();
        } else if (strcmp(mode, "again") == 0) {
                hold_again(1);
        } else {
                return 2;
        }
        return 0;
}
