// Preloaded into a process: notes each write of the environment while a thread of ours runs, by Python or by native
// code such as Ray's. Who runs is told by environment_writes.py.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(const char *) running = ""; // names of our threads that run now
static int log_file = -1;

void log_into(int descriptor) { log_file = descriptor; }

void now_running(const char *names) { atomic_store(&running, strdup(names)); } // never freed: another thread may read it

static void note(const char *how, const char *variable, void *caller) {
    const char *names = atomic_load(&running);
    if (log_file < 0 || !*names)
        return;
    Dl_info info;
    const char *library = dladdr(caller, &info) && info.dli_fname ? info.dli_fname : "?";
    dprintf(log_file, "%s(%.40s) of %s beside %s\n", how, variable, library, names);
}

int setenv(const char *name, const char *value, int overwrite) {
    int (*next)(const char *, const char *, int) = dlsym(RTLD_NEXT, "setenv");
    note("setenv", name, __builtin_return_address(0));
    return next(name, value, overwrite);
}

int unsetenv(const char *name) {
    int (*next)(const char *) = dlsym(RTLD_NEXT, "unsetenv");
    note("unsetenv", name, __builtin_return_address(0));
    return next(name);
}

int putenv(char *text) {
    int (*next)(char *) = dlsym(RTLD_NEXT, "putenv");
    note("putenv", text, __builtin_return_address(0));
    return next(text);
}
