/* Records, in order, every change that a process makes to files below RECORD_BELOW: for tests of power cuts.
 *
 * Loaded with LD_PRELOAD. The log has records of: kind, path length, offset, data length, path, data.
 * Kinds: w write, s sync, t truncate, u unlink, r rename (the data is the new path). Writes through memory maps are not seen; SQLite makes them
 * only to its -shm file, which it rebuilds.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -2;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);

static void begin(void) {
    if (log_fd != -2) return;
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    const char *path = getenv("RECORD_TO");
    int (*real_open)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    log_fd = path ? real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
}

static int is_recorded(const char *path) {
    const char *below = getenv("RECORD_BELOW");
    return below && strncmp(path, below, strlen(below)) == 0;
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return is_recorded(path);
}

static void record(char kind, const char *path, uint64_t offset, const void *data, uint64_t length) {
    pthread_mutex_lock(&lock);
    begin();
    if (log_fd >= 0) {
        uint64_t head[4] = {(uint64_t)kind, strlen(path), offset, length};
        struct iovec parts[3] = {{head, sizeof head}, {(void *)path, head[1]}, {(void *)data, length}};
        if (writev(log_fd, parts, 3) < 0) abort();
    }
    pthread_mutex_unlock(&lock);
}

ssize_t write(int fd, const void *data, size_t length) {
    begin();
    char path[PATH_MAX];
    off_t offset = path_of(fd, path) ? lseek(fd, 0, SEEK_CUR) : -1;
    ssize_t written = real_write(fd, data, length);
    if (offset >= 0 && written > 0) record('w', path, offset, data, written);
    return written;
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    begin();
    char path[PATH_MAX];
    ssize_t written = real_pwrite(fd, data, length, offset);
    if (written > 0 && path_of(fd, path)) record('w', path, offset, data, written);
    return written;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return pwrite64(fd, data, length, offset); }

#define SYNC(name)                                                                                                     \
    int name(int fd) {                                                                                                 \
        int (*real)(int) = dlsym(RTLD_NEXT, #name);                                                                    \
        char path[PATH_MAX];                                                                                           \
        int failed = real(fd);                                                                                         \
        if (!failed && path_of(fd, path)) record('s', path, 0, "", 0);                                                 \
        return failed;                                                                                                 \
    }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name, size_type)                                                                                      \
    int name(int fd, size_type length) {                                                                               \
        int (*real)(int, size_type) = dlsym(RTLD_NEXT, #name);                                                         \
        char path[PATH_MAX];                                                                                           \
        int failed = real(fd, length);                                                                                 \
        if (!failed && path_of(fd, path)) record('t', path, length, "", 0);                                            \
        return failed;                                                                                                 \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

int unlink(const char *path) {
    int (*real)(const char *) = dlsym(RTLD_NEXT, "unlink");
    int failed = real(path);
    if (!failed && is_recorded(path)) record('u', path, 0, "", 0);
    return failed;
}

int rename(const char *from, const char *to) {
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    int failed = real(from, to);
    if (!failed && is_recorded(from)) record('r', from, 0, to, strlen(to));
    return failed;
}
