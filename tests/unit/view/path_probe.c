// SPDX-License-Identifier: Apache-2.0
// Calls every function that libibverbs.so.1 stands in front of, and prints what each says in words that are the same
// for equal trees:  path_probe DIRECTORY FILE SUB SUB_FILE LINK LINK_FILE Names in DIRECTORY: of a file of one line, a
// directory and a file in it, a symbolic link to a directory and a file there.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

int __open_2(const char*, int);
int __open64_2(const char*, int);
int __openat_2(int, const char*, int);
int __openat64_2(int, const char*, int);
ssize_t __read_chk(int, void*, size_t, size_t);
ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void*, size_t, off64_t, size_t);
ssize_t __recv_chk(int, void*, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void*, size_t, size_t, int, struct sockaddr*, socklen_t*);
ssize_t __readlink_chk(const char*, char*, size_t, size_t);
ssize_t __readlinkat_chk(int, const char*, char*, size_t, size_t);
char* __realpath_chk(const char*, char*, size_t);
char* __getcwd_chk(char*, size_t, size_t);

static char root[PATH_MAX];
static const char *file_name, *sub, *sub_file, *link_name, *link_file;
static char buffer[PATH_MAX];

static const char* in(const char* name) {
  static char paths[4][PATH_MAX];
  static int next = 0;
  char* path = paths[next++ % 4];
  snprintf(path, PATH_MAX, "%s/%s", root, name);
  return path;
}

/// `name` behind the file, which is no directory.
static const char* in_file(const char* name) {
  static char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s/%s", root, file_name, name);
  return path;
}

static const char* dotted(const char* name) {
  static char path[PATH_MAX];
  snprintf(path, sizeof path, "./%s/.././%s", sub, name);
  return strchr(sub, '/') == NULL ? path : name;
}

/// errno as a word, of functions that say -1.
static const char* outcome(long result) { return result >= 0 ? "ok" : strerrorname_np(errno); }

/// `path` without what the two trees do not share.
static const char* below(const char* path) {
  if (path == NULL) return strerrorname_np(errno);
  return strncmp(path, root, strlen(root)) == 0 ? path + strlen(root) : path;
}

static int by_name(const void* a, const void* b) { return strcmp(*(char* const*)a, *(char* const*)b); }

static void read_and_close(const char* what, int fd) {
  char text[64] = "";
  if (fd < 0) {
    printf("%s: %s\n", what, outcome(fd));
    return;
  }
  ssize_t size = read(fd, text, sizeof text - 1);
  printf("%s: mode %d, read %zd '%s'", what, fcntl(fd, F_GETFL) & O_ACCMODE, size, text);
  printf(", lseek %lld", (long long)lseek(fd, 0, SEEK_SET));
  printf(", lseek64 %lld", (long long)lseek64(fd, 0, SEEK_SET));
  printf(", again %zd", __read_chk(fd, text, 4, sizeof text));
  printf(", pread %zd %zd", pread(fd, text, 4, 0), pread64(fd, text, 60, 2));
  printf(" %zd %zd", __pread_chk(fd, text, 4, 0, sizeof text), __pread64_chk(fd, text, 60, 2, sizeof text));
  printf(", write %s\n", outcome(write(fd, "x", 1)));
  close(fd);
}

static void probe_open(void) {
  const int at = open(root, O_RDONLY | O_DIRECTORY);
  read_and_close("open", open(in(file_name), O_RDONLY));
  read_and_close("open64", open64(in(link_file), O_RDONLY | O_CLOEXEC));
  read_and_close("__open_2", __open_2(in(file_name), O_RDONLY));
  read_and_close("__open64_2", __open64_2(in(file_name), O_RDONLY));
  read_and_close("openat", openat(at, file_name, O_RDONLY));
  read_and_close("openat64", openat64(at, link_file, O_RDONLY));
  read_and_close("__openat_2", __openat_2(at, sub_file, O_RDONLY));
  read_and_close("__openat64_2", __openat64_2(at, dotted(file_name), O_RDONLY));
  read_and_close("openat absolute", openat(-1, in(file_name), O_RDONLY));
  read_and_close("open nothing", open(in("none"), O_RDONLY));
  read_and_close("open below a file", open(in_file("none"), O_RDONLY));
  read_and_close("open slash", open(in_file(""), O_RDONLY));
  read_and_close("open link", open(in(link_name), O_RDONLY | O_NOFOLLOW));
  read_and_close("open directory", open(in(file_name), O_RDONLY | O_DIRECTORY));
  read_and_close("open exclusive", open(in(file_name), O_RDONLY | O_CREAT | O_EXCL, 0600));
  read_and_close("open directory for writing", open(in(sub), O_WRONLY));
  int fd = open(in(file_name), O_RDONLY | O_CLOEXEC);
  int copy = dup(fd);
  printf("close on exec: %d %d\n", fcntl(fd, F_GETFD), fcntl(copy, F_GETFD));
  const char* const places[] = {file_name, sub, link_name};
  for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
    struct stat s = {0};
    const int place = open(in(places[i]), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    printf("O_PATH %s: %s", places[i], outcome(place));
    printf(", fstat %s", outcome(fstat(place, &s)));
    printf(", type %o", s.st_mode & S_IFMT);
    const ssize_t size = readlinkat(place, "", buffer, sizeof buffer);
    printf(", readlinkat %s", outcome(size));
    printf(" %.*s", size < 0 ? 0 : (int)size, buffer);
    printf(", read %s\n", outcome(read(place, buffer, 1)));
    close(place);
  }
  printf("O_PATH directory: %s\n", outcome(open(in(file_name), O_PATH | O_DIRECTORY)));
  close(fd);
  read_and_close("dup", copy);
  close(at);

  char line[64] = "";
  FILE* stream = fopen(in(file_name), "r");
  printf("fopen: %s", stream == NULL ? "null\n" : fgets(line, sizeof line, stream));
  FILE* memory = fmemopen(buffer, sizeof buffer, "r");  // Has no descriptor, which is no error.
  errno = 0;
  rewind(memory);
  printf("rewind %d", errno);
  printf(", fseek %s %d\n", outcome(fseek(memory, 0, SEEK_SET)), errno);
  fclose(memory);
  if (stream != NULL) {
    printf("fseek %s", outcome(fseek(stream, 0, SEEK_SET)));
    printf(" %c, fseeko %s", fgetc(stream), outcome(fseeko(stream, 0, SEEK_SET)));
    printf(" %c, fseeko64 %s", fgetc(stream), outcome(fseeko64(stream, 0, SEEK_SET)));
    printf(" %c, beyond %s", fgetc(stream), outcome(fseek(stream, -1, SEEK_SET)));
    rewind(stream);
    printf(", rewind %c\n", fgetc(stream));
    fclose(stream);
  }
  stream = fopen64(in(sub_file), "re");
  printf("fopen64: %s", stream == NULL ? "null\n" : fgets(line, sizeof line, stream));
  if (stream != NULL) fclose(stream);
  stream = fopen(in("none"), "r");
  printf("fopen nothing: %s\n", stream == NULL ? strerrorname_np(errno) : "there");
}

/// What `stream` reads after freopen(3), and whether its descriptor is the one it had before.
static void tell_reopened(const char* what, FILE* stream, int before) {
  char line[64] = "";
  printf("%s: ", what);
  if (stream == NULL) {
    printf("%s, ", strerrorname_np(errno));
    printf("descriptor %s\n", outcome(fcntl(before, F_GETFD)));
    return;
  }
  printf("the same descriptor %d, flags %d, %s", fileno(stream) == before, fcntl(fileno(stream), F_GETFD),
         fgets(line, sizeof line, stream) == NULL ? "empty\n" : line);
}

static void probe_reopen(void) {
  FILE* stream = fopen("/dev/null", "r");
  const int fd = fileno(stream);
  tell_reopened("freopen", stream = freopen(in(file_name), "r", stream), fd);
  tell_reopened("freopen64", stream = freopen64(in(sub_file), "re", stream), fd);
  rewind(stream);
  tell_reopened("in place", stream = freopen(NULL, "r", stream), fd);
  tell_reopened("away from it", stream = freopen("/dev/null", "r", stream), fd);
  tell_reopened("through a link", stream = freopen(in(link_file), "r", stream), fd);
  tell_reopened("nothing", freopen(in("none"), "r", stream), fd);
  tell_reopened("directory", freopen(in(sub), "w", fopen("/dev/null", "r")), fd);
  tell_reopened("nowhere", freopen64((const char*)8, "r", fopen("/dev/null", "r")), fd);
}

// What a walk tells, in any order; the many counters are only counted.
static char* steps[64];
static int step_count, line_count;
static int walk_ends_at = -1, walk_answers;  ///< At the entry with this type, what is said.

static int step(const char* path, const struct stat* status, int type, struct FTW* place) {
  static const char* const types[] = {"F", "D", "DNR", "NS", "SL", "DP", "SLN"};
  struct stat here = {0};
  // From where the walk has gone with FTW_CHDIR.
  const int found = lstat(path + (place == NULL ? 0 : place->base), &here) == 0 && here.st_ino == status->st_ino;
  ++step_count;
  if (strstr(path, "counters/") == NULL && line_count < 64) {
    asprintf(&steps[line_count++], "%s %s %s, level %d, found %d", below(path), types[type],
             place == NULL ? "" : path + place->base, place == NULL ? 0 : place->level, found);
  }
  return type == walk_ends_at ? walk_answers : 0;
}
static int step64(const char* path, const struct stat64* status, int type, struct FTW* place) {
  return step(path, (const struct stat*)status, type, place);
}
static int plain_step(const char* path, const struct stat* status, int type) { return step(path, status, type, NULL); }
static int plain_step64(const char* path, const struct stat64* status, int type) {
  return step(path, (const struct stat*)status, type, NULL);
}

static void tell_walk(const char* what, int result) {
  printf("%s: %d %s, %d steps\n", what, result, result < 0 ? outcome(result) : "", step_count);
  qsort(steps, (size_t)line_count, sizeof *steps, by_name);
  for (int i = 0; i < line_count; ++i) {
    if (walk_ends_at < 0) printf("  %s\n", steps[i]);
    free(steps[i]);
  }
  step_count = line_count = 0;
}

static void probe_walk(void) {
  char slashes[PATH_MAX + 2];
  snprintf(slashes, sizeof slashes, "%s//", in(sub));
  tell_walk("ftw", ftw(in(sub), plain_step, 5));
  tell_walk("ftw64", ftw64(slashes, plain_step64, 5));
  tell_walk("ftw file", ftw(in(file_name), plain_step, 5));
  tell_walk("ftw nothing", ftw(in("none"), plain_step, 5));
  tell_walk("nftw", nftw(slashes, step, 5, 0));
  tell_walk("nftw link", nftw(in(link_name), step, 5, FTW_PHYS));
  tell_walk("nftw physical", nftw(root, step, 5, FTW_PHYS | FTW_MOUNT));
  tell_walk("nftw64 depth", nftw64(root, step64, 5, FTW_PHYS | FTW_DEPTH));
  tell_walk("nftw from there", nftw(root, step, 5, FTW_PHYS | FTW_CHDIR));
  tell_walk("nftw64 from there, depth", nftw64(root, step64, 5, FTW_PHYS | FTW_CHDIR | FTW_DEPTH));
  printf("back again: %s\n", outcome(access(file_name, F_OK)));
  walk_ends_at = FTW_D, walk_answers = 7;
  tell_walk("nftw ends", nftw(root, step, 5, FTW_PHYS));
  walk_answers = FTW_SKIP_SUBTREE;
  tell_walk("nftw not below", nftw(root, step, 5, FTW_PHYS | FTW_ACTIONRETVAL));
  walk_ends_at = FTW_DP, walk_answers = FTW_STOP;
  tell_walk("nftw stops", nftw(in(sub_file), step, 5, FTW_PHYS | FTW_ACTIONRETVAL | FTW_DEPTH));
  walk_ends_at = -1;
}

static void probe_file_system(void) {
  const char* const names[] = {file_name, sub, link_name, "none", in_file("none") + strlen(root) + 1};
  struct statfs s;
  struct statfs64 s64;
  struct statvfs v;
  struct statvfs64 v64;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const char* const path = in(names[i]);
    printf("file system of %s: %s", names[i], outcome(statfs(path, &s)));
    printf(" %s", outcome(statfs64(path, &s64)));
    printf(" %s", outcome(statvfs(path, &v)));
    printf(" %s\n", outcome(statvfs64(path, &v64)));
  }
  const int fd = open(in(file_name), O_RDONLY);
  void* volatile nowhere = (void*)8;
  printf("names of up to %ld %ld", (long)s.f_namelen, (long)v64.f_namemax);
  printf(", by descriptor %s", outcome(fstatfs(fd, &s)));
  printf(" %s", outcome(fstatfs64(fd, &s64)));
  printf(" %s", outcome(fstatvfs(fd, &v)));
  printf(" %s", outcome(fstatvfs64(fd, &v64)));
  printf(", the same %d", s.f_type == s64.f_type && v.f_bsize == v64.f_bsize && s.f_bsize != 0);
  printf(", to nowhere %s", outcome(statfs(in(file_name), nowhere)));
  printf(" %s", outcome(fstatfs64(fd, nowhere)));
  printf(", from nowhere %s", outcome(statvfs(nowhere, &v)));
  printf(", of none %s\n", outcome(fstatvfs(-1, &v)));
  close(fd);
}

/// Each function that leaves pointers to the kernel, with one that leads nowhere: a wrong path, or a wrong place for
/// the answer about a right one. opendir, scandir, realpath, glob and nftw are left out: in libc they read the path.
static void probe_bad_pointers(void) {
  char* const pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(pages, '/', 4096);
  mprotect(pages + 4096, 4096, PROT_NONE);
  const char* const wrong[] = {(const char*)8, pages + 4096, pages + 4000, (const char*)-4096};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    const char* const path = wrong[i];
    struct stat s;
    struct stat64 s64;
    struct statx x;
    printf("path %zu: open %s", i, outcome(open(path, O_RDONLY)));
    printf(" %s", outcome(open64(path, O_RDONLY)));
    printf(" %s", outcome(__open_2(path, O_RDONLY)));
    printf(" %s", outcome(__open64_2(path, O_RDONLY)));
    printf(" %s", outcome(openat(AT_FDCWD, path, O_RDONLY)));
    printf(" %s", outcome(openat64(AT_FDCWD, path, O_RDONLY)));
    printf(" %s", outcome(__openat_2(AT_FDCWD, path, O_RDONLY)));
    printf(" %s", outcome(__openat64_2(AT_FDCWD, path, O_RDONLY)));
    printf(", fopen %s", fopen(path, "r") == NULL ? strerrorname_np(errno) : "ok");
    printf(" %s", fopen64(path, "r") == NULL ? strerrorname_np(errno) : "ok");
    printf(", stat %s", outcome(stat(path, &s)));
    printf(" %s", outcome(lstat(path, &s)));
    printf(" %s", outcome(stat64(path, &s64)));
    printf(" %s", outcome(lstat64(path, &s64)));
    printf(" %s", outcome(fstatat(AT_FDCWD, path, &s, AT_EMPTY_PATH)));
    printf(" %s", outcome(fstatat64(AT_FDCWD, path, &s64, 0)));
    printf(" %s", outcome(statx(AT_FDCWD, path, AT_EMPTY_PATH, STATX_BASIC_STATS, &x)));
    printf(", access %s", outcome(access(path, R_OK)));
    printf(" %s", outcome(eaccess(path, R_OK)));
    printf(" %s", outcome(euidaccess(path, R_OK)));
    printf(" %s", outcome(faccessat(AT_FDCWD, path, R_OK, 0)));
    printf(", readlink %s", outcome(readlink(path, buffer, sizeof buffer)));
    printf(" %s", outcome(readlinkat(AT_FDCWD, path, buffer, sizeof buffer)));
    printf(" %s", outcome(__readlink_chk(path, buffer, 10, sizeof buffer)));
    printf(" %s", outcome(__readlinkat_chk(AT_FDCWD, path, buffer, 10, sizeof buffer)));
    printf(", xattr %s", outcome(getxattr(path, "user.x", buffer, 10)));
    printf(" %s", outcome(lgetxattr(path, "user.x", buffer, 10)));
    printf(" %s", outcome(listxattr(path, buffer, 10)));
    printf(" %s\n", outcome(llistxattr(path, buffer, 10)));
  }
  const int at = open(root, O_RDONLY | O_DIRECTORY), file = open(in(file_name), O_RDONLY);
  void* volatile nowhere = (void*)8;  // The compiler shall not know.
  printf("to nowhere: stat %s", outcome(stat(in(file_name), nowhere)));
  printf(" %s", outcome(lstat(in(link_name), nowhere)));
  printf(" %s", outcome(stat64(in(file_name), nowhere)));
  printf(" %s", outcome(lstat64(in(link_name), nowhere)));
  printf(" %s", outcome(fstat(file, nowhere)));
  printf(" %s", outcome(fstat64(file, nowhere)));
  printf(" %s", outcome(fstatat(at, file_name, nowhere, 0)));
  printf(" %s", outcome(fstatat64(at, sub, nowhere, 0)));
  printf(" %s", outcome(statx(at, file_name, 0, STATX_BASIC_STATS, nowhere)));
  printf(", readlink %s", outcome(readlink(in(link_name), nowhere, 10)));
  printf(" %s", outcome(readlinkat(at, link_name, nowhere, 10)));
  printf(", read %s", outcome(read(file, nowhere, 1)));
  printf(" %s\n", outcome(pread(file, nowhere, 1, 0)));
  close(at);
  close(file);
  munmap(pages, 8192);
}

static void print_status(const char* what, int result, const struct stat* s) {
  if (result != 0) {
    printf("%s: %s\n", what, outcome(result));
    return;
  }
  printf("%s: type %o, links %lu, target of %ld, inode %s\n", what, s->st_mode & S_IFMT, (unsigned long)s->st_nlink,
         S_ISLNK(s->st_mode) ? (long)s->st_size : -1, s->st_ino != 0 ? "yes" : "no");
}

static void* old(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  return found != NULL ? found : dlvsym(RTLD_DEFAULT, name, "GLIBC_2.2.5");
}

static void probe_stat(void) {
  struct stat s;
  struct stat64 s64;
  const int at = open(root, O_RDONLY | O_DIRECTORY), file = open(in(file_name), O_RDONLY);
  const char* const names[] = {file_name, sub, link_name, link_file, "none", in_file("none") + strlen(root) + 1, "."};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    printf("-- %s\n", names[i]);
    print_status("stat", stat(in(names[i]), &s), &s);
    print_status("lstat", lstat(in(names[i]), &s), &s);
    print_status("stat64", stat64(in(names[i]), &s64), (struct stat*)&s64);
    print_status("lstat64", lstat64(in(names[i]), &s64), (struct stat*)&s64);
    print_status("fstatat", fstatat(at, names[i], &s, 0), &s);
    print_status("fstatat64", fstatat64(at, names[i], &s64, AT_SYMLINK_NOFOLLOW), (struct stat*)&s64);
    int (*xstat)(int, const char*, struct stat*) = old("__xstat");
    int (*xstat64)(int, const char*, struct stat*) = old("__xstat64");
    int (*lxstat)(int, const char*, struct stat*) = old("__lxstat");
    int (*lxstat64)(int, const char*, struct stat*) = old("__lxstat64");
    int (*fxstatat)(int, int, const char*, struct stat*, int) = old("__fxstatat");
    int (*fxstatat64)(int, int, const char*, struct stat*, int) = old("__fxstatat64");
    print_status("__xstat", xstat(1, in(names[i]), &s), &s);
    print_status("__xstat64", xstat64(1, in(names[i]), &s), &s);
    print_status("__lxstat", lxstat(1, in(names[i]), &s), &s);
    print_status("__lxstat64", lxstat64(1, in(names[i]), &s), &s);
    print_status("__fxstatat", fxstatat(1, at, names[i], &s, 0), &s);
    print_status("__fxstatat64", fxstatat64(1, at, names[i], &s, 0), &s);
    struct statx x;
    const int result = statx(at, names[i], 0, STATX_BASIC_STATS, &x);
    printf("statx: %s", outcome(result));
    if (result == 0)
      printf(", type %o, same file %d", x.stx_mode & S_IFMT,
             fstatat(at, names[i], &s, 0) == 0 && s.st_ino == x.stx_ino);
    printf("\n");
    printf("access: read %s", outcome(access(in(names[i]), R_OK)));
    printf(", there %s", outcome(eaccess(in(names[i]), F_OK)));
    printf(", %s", outcome(euidaccess(in(names[i]), R_OK)));
    printf(", %s\n", outcome(faccessat(at, names[i], R_OK, 0)));
    ssize_t size = readlink(in(names[i]), buffer, sizeof buffer);
    printf("readlink: %s %.*s", outcome(size), size < 0 ? 0 : (int)size, buffer);
    size = readlinkat(at, names[i], buffer, 2);
    printf(", %s %.*s", outcome(size), size < 0 ? 0 : (int)size, buffer);
    size = __readlink_chk(in(names[i]), buffer, 10, sizeof buffer);
    printf(", %s %.*s", outcome(size), size < 0 ? 0 : (int)size, buffer);
    size = __readlinkat_chk(at, names[i], buffer, 10, sizeof buffer);
    printf(", %s %.*s\n", outcome(size), size < 0 ? 0 : (int)size, buffer);
    printf("realpath: %s", below(realpath(in(names[i]), buffer)));
    printf(", %s", below(__realpath_chk(in(names[i]), buffer, sizeof buffer)));
    char* own = realpath(in(names[i]), NULL);
    printf(", %s", below(own));
    free(own);
    own = canonicalize_file_name(in(names[i]));
    printf(", %s\n", below(own));
    free(own);
    printf("attributes: %d %d %d %d\n", listxattr(in(names[i]), buffer, 0) > 0, llistxattr(in(names[i]), buffer, 0) > 0,
           getxattr(in(names[i]), "user.none", buffer, 10) > 0, lgetxattr(in(names[i]), "user.none", buffer, 10) > 0);
  }
  printf("-- descriptors\n");
  print_status("fstat directory", fstat(at, &s), &s);
  print_status("fstat64", fstat64(file, &s64), (struct stat*)&s64);
  int (*fxstat)(int, int, struct stat*) = old("__fxstat");
  int (*fxstat64)(int, int, struct stat*) = old("__fxstat64");
  print_status("__fxstat", fxstat(1, file, &s), &s);
  print_status("__fxstat64", fxstat64(1, at, &s), &s);
  print_status("fstatat empty", fstatat(at, "", &s, AT_EMPTY_PATH), &s);
  struct statx x;
  printf("statx empty: %s", outcome(statx(at, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x)));
  printf(", type %o\n", x.stx_mode & S_IFMT);
  fstat(file, &s);
  const ino_t inode = s.st_ino;
  stat(in(file_name), &s);
  printf("one file, one inode: %d\n", s.st_ino == inode);
  close(at);
  close(file);
}

/// The names in any order, sorted.
static void print_names(const char* what, char** names, int count) {
  qsort(names, (size_t)count, sizeof *names, by_name);
  printf("%s:", what);
  for (int i = 0; i < count; ++i) {
    printf(" %s", names[i]);
    free(names[i]);
  }
  printf("\n");
}

static int no_dots(const struct dirent* entry) { return entry->d_name[0] != '.'; }
static int no_dots64(const struct dirent64* entry) { return entry->d_name[0] != '.'; }

static void probe_directories(void) {
  char* names[64];
  int count = 0;
  DIR* stream = opendir(root);
  if (stream == NULL) {
    printf("opendir: %s\n", strerrorname_np(errno));
    return;
  }
  for (struct dirent* e; (e = readdir(stream)) != NULL;) {
    asprintf(&names[count++], "%s(%d)", e->d_name, e->d_type);
  }
  print_names("readdir", names, count);
  rewinddir(stream);
  count = 0;
  for (struct dirent64* e; (e = readdir64(stream)) != NULL;) names[count++] = strdup(e->d_name);
  print_names("readdir64", names, count);
  rewinddir(stream);
  const long begin = telldir(stream);
  char* first = strdup(readdir(stream)->d_name);
  seekdir(stream, begin);
  printf("seekdir: %d\n", strcmp(first, readdir(stream)->d_name));
  free(first);
  rewinddir(stream);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct dirent entry, *next;
  struct dirent64 entry64, *next64;
  count = 0;
  while (readdir_r(stream, &entry, &next) == 0 && next != NULL) names[count++] = strdup(entry.d_name);
  print_names("readdir_r", names, count);
  rewinddir(stream);
  count = 0;
  while (readdir64_r(stream, &entry64, &next64) == 0 && next64 != NULL) names[count++] = strdup(entry64.d_name);
#pragma GCC diagnostic pop
  print_names("readdir64_r", names, count);
  struct stat s;
  print_status("dirfd", fstat(dirfd(stream), &s), &s);
  int fd = openat(dirfd(stream), file_name, O_RDONLY);
  read_and_close("openat(dirfd)", fd);
  fd = dirfd(stream);
  printf("closedir: %d", closedir(stream));
  printf(", %s\n", outcome(fcntl(fd, F_GETFD)));

  fd = open(in(link_name), O_RDONLY | O_DIRECTORY);
  stream = fdopendir(fd);
  count = 0;
  for (struct dirent* e; stream != NULL && (e = readdir(stream)) != NULL;) names[count++] = strdup(e->d_name);
  print_names("fdopendir", names, count);
  if (stream != NULL) closedir(stream);
  fd = open(in(file_name), O_RDONLY);
  printf("fdopendir file: %s\n", fdopendir(fd) == NULL ? strerrorname_np(errno) : "null");
  close(fd);
  DIR* many[100];
  count = 0;
  for (int i = 0; i < 100; ++i) count += (many[i] = opendir(root)) != NULL;
  for (int i = 0; i < count; ++i) closedir(many[i]);
  printf("%d open directories\n", count);
  printf("opendir nothing: %s\n", opendir(in("none")) == NULL ? strerrorname_np(errno) : "there");
  printf("opendir file: %s\n", opendir(in(file_name)) == NULL ? strerrorname_np(errno) : "there");

  struct dirent** list = NULL;
  count = scandir(root, &list, no_dots, alphasort);
  printf("scandir: %d", count);
  for (int i = 0; i < count; ++i) printf(" %s", list[i]->d_name);
  struct dirent64** list64 = NULL;
  count = scandir64(in(sub), &list64, no_dots64, alphasort64);
  printf("\nscandir64: %d", count);
  for (int i = 0; i < count; ++i) printf(" %s", list64[i]->d_name);
  printf("\nscandir nothing: %s\n", outcome(scandir(in("none"), &list, NULL, NULL)));

  glob_t g = {0};
  glob64_t g64 = {0};
  printf("glob: %d", glob(in("p*/*"), 0, NULL, &g));
  for (size_t i = 0; i < g.gl_pathc; ++i) printf(" %s", below(g.gl_pathv[i]));
  globfree(&g);
  printf("\nglob64: %d", glob64(in(sub), GLOB_MARK, NULL, &g64));
  for (size_t i = 0; i < g64.gl_pathc; ++i) printf(" %s", below(g64.gl_pathv[i]));
  globfree64(&g64);
  printf("\nglob nothing: %d\n", glob(in("none*"), 0, NULL, &g));
}

/// What else can be done with a descriptor.
static void probe_descriptors(void) {
  const int file = open(in(file_name), O_RDONLY);
  char one = 0;
  const int copies[] = {dup(file), dup2(file, 500), dup3(file, 501, O_CLOEXEC), fcntl(file, F_DUPFD, 400),
                        fcntl64(file, F_DUPFD_CLOEXEC, 410)};
  for (size_t i = 0; i < sizeof copies / sizeof copies[0]; ++i) {
    printf("copy %zu: %s, %ld bytes, flags %d\n", i, outcome(copies[i]), (long)pread(copies[i], &one, 1, 1),
           fcntl(copies[i], F_GETFD));
  }
  printf("dup of none: %s\n", outcome(dup(-1)));
  printf("dup2 to itself: %d\n", dup2(file, file) == file);
  printf("dup3 to itself: %s\n", outcome(dup3(file, file, 0)));
  printf("write: %s\n", outcome(write(file, "x", 1)));
  printf("ioctl: %s\n", outcome(ioctl(file, TCGETS, buffer)));
  printf("close: %s\n", outcome(close(copies[0])));
  printf("close again: %s\n", outcome(close(copies[0])));
  printf("close_range: %s\n", outcome(close_range(400, 500, 0)));
  printf("of the range: %s\n", outcome(fcntl(500, F_GETFD)));
  closefrom(501);
  printf("from there on: %s\n", outcome(fcntl(501, F_GETFD)));
  const int unix_socket = socket(AF_UNIX, SOCK_STREAM, 0);
  printf("socket: %s\n", outcome(unix_socket));
  close(unix_socket);
  close(file);
}

/// Sockets other than NETLINK_RDMA are the kernel's, whatever they are given.
static void probe_sockets(void) {
  void* volatile nowhere = (void*)8;
  const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  printf("socket %s, socket %s", outcome(fd), outcome(socket(-1, SOCK_DGRAM, 0)));
  printf(", sendto %s %s", outcome(sendto(fd, "x", 1, 0, NULL, 0)), outcome(sendto(fd, "x", 1, 0, nowhere, 12)));
  printf(", send %s, sendmsg %s", outcome(send(fd, "x", 1, 0)), outcome(sendmsg(fd, nowhere, 0)));
  printf(", recv %s", outcome(recv(fd, buffer, 1, MSG_DONTWAIT)));
  printf(" %s", outcome(__recv_chk(fd, buffer, 1, 1, MSG_DONTWAIT)));
  printf(", recvfrom %s", outcome(recvfrom(fd, buffer, 1, MSG_DONTWAIT, nowhere, nowhere)));
  printf(" %s", outcome(__recvfrom_chk(fd, buffer, 1, 1, MSG_DONTWAIT, nowhere, nowhere)));
  printf(", recvmsg %s\n", outcome(recvmsg(fd, nowhere, MSG_DONTWAIT)));
  close(fd);
}

/// Where the process is, and what the names there are.
static void tell_directory(const char* what) {
  struct stat here, named;
  char* allocated = getcwd(NULL, 0);
  char* other = get_current_dir_name();
  printf("%s: %s", what, below(getcwd(buffer, sizeof buffer)));
  printf(" = %s", below(__getcwd_chk(buffer, sizeof buffer, sizeof buffer)));
  printf(" = %s", below(allocated));
  printf(" = %s", below(other));
  printf(", room for 2 %s", getcwd(buffer, 2) == NULL ? strerrorname_np(errno) : "ok");
  printf(", for 0 %s", getcwd(buffer, 0) == NULL ? strerrorname_np(errno) : "ok");
  printf(", . %s", outcome(stat(".", &here)));
  printf(", the same %d\n", allocated != NULL && stat(allocated, &named) == 0 && here.st_ino == named.st_ino);
  free(allocated);
  free(other);
  DIR* directory = opendir(".");
  int entries = 0;
  while (directory != NULL && readdir(directory) != NULL) ++entries;
  if (directory != NULL) closedir(directory);
  printf("%d entries\n", entries);
}

static void close_none(void) {}
static void close_each(void) {
  for (int fd = 3; fd < 1024; ++fd) close(fd);
}
static void close_range_from_3(void) { close_range(3, ~0U, 0); }
static void close_on_exec_from_3(void) { close_range(3, 1023, CLOSE_RANGE_CLOEXEC); }
static void closefrom_3(void) { closefrom(3); }

/// Where a child of vfork() is that goes to one directory, and then to another one, closes descriptors that it does not
/// know, and how many its programs may have.
static void tell_directory_of_child(const char* what, const char* directory, const char* then,
                                    void (*close_unknown)(void), rlim_t descriptors) {
  printf("%s\n", what);
  fflush(stdout);
  int status = 0;
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = descriptors;
  const pid_t child = vfork();
  if (child == 0) {
    if (chdir(directory) == 0 && chdir(then) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0) {
      close_unknown();
      execl("/bin/sh", "sh", "-c", "pwd -P | sed 's|.*/||'; ls | wc -l", (char*)NULL);
    }
    _exit(1);
  }
  waitpid(child, &status, 0);
  printf("status %d\n", status);
}

static void probe_working_directory(void) {
  char before[PATH_MAX];
  if (getcwd(before, sizeof before) == NULL) exit(2);
  printf("chdir %s", outcome(chdir(root)));
  printf(", to a file %s", outcome(chdir(file_name)));
  printf(", to nothing %s", outcome(chdir("nothing")));
  printf(", from nowhere %s\n", outcome(chdir((void*)8)));
  tell_directory("root");
  const int file = open(file_name, O_RDONLY), up = open("..", O_RDONLY | O_DIRECTORY);
  printf("open %s, fchdir %s, open .. %s\n", outcome(file), outcome(fchdir(file)), outcome(up));
  close(file);
  printf("chdir %s\n", outcome(chdir(sub)));
  tell_directory("sub");
  printf("chdir %s\n", outcome(chdir(in(link_name))));
  tell_directory("link");
  fflush(stdout);
  printf("pwd %d\n", system("pwd -P | sed 's|.*/||'; ls | wc -l; cd ..; ls . | wc -l"));
  printf("fchdir %s\n", outcome(fchdir(up)));
  tell_directory("up");
  printf("chdir %s", outcome(chdir("/")));
  printf(" %s\n", getcwd(buffer, sizeof buffer));
  printf("not there %s\n", outcome(access(file_name, R_OK)));
  read_and_close("from / downwards", open(in(file_name) + 1, O_RDONLY));
  const int top = open("/", O_RDONLY | O_DIRECTORY);
  read_and_close("openat of /", openat(top, in(file_name) + 1, O_RDONLY));
  close(top);
  printf("chdir downwards %s\n", outcome(chdir(root + 1)));
  tell_directory("downwards");
  // What a child of vfork() does is no business of its parent, whose memory it has.
  chdir(in(sub));
  tell_directory("parent");
  tell_directory_of_child("child goes out", "/", ".", close_none, 1024);
  tell_directory_of_child("child goes up", root, ".", close_none, 1024);
  tell_directory("parent, still there");
  chdir(before);
  tell_directory_of_child("child goes in", root, ".", close_none, 1024);
  tell_directory_of_child("in and further", root, sub, close_none, 256);
  tell_directory_of_child("in and out", root, "/", close_none, 1024);
  void (*const ways[])(void) = {close_each, close_range_from_3, close_on_exec_from_3, closefrom_3};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i) {
    tell_directory_of_child("in, and closes", root, sub, ways[i], 1024);
    chdir(root);
    tell_directory_of_child("inside, and closes", ".", sub, ways[i], 1024);
    tell_directory_of_child("out, and closes", "/", ".", ways[i], 1024);
    tell_directory("parent, inside");
    chdir(before);
  }
  tell_directory("parent, outside");
  struct rlimit limit, low = {.rlim_cur = 100};
  getrlimit(RLIMIT_NOFILE, &limit);
  low.rlim_max = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &low);
  printf("few descriptors: chdir %s\n", outcome(chdir(root)));
  tell_directory_of_child("child", in(sub), ".", close_none, 1024);
  setrlimit(RLIMIT_NOFILE, &limit);
  printf("chdir %s\n", outcome(chdir(before)));
  close(up);
}

/// A child that ends at once. Whether it could be made and waited for.
static int made_child(void) {
  int status = -1;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status == 0;
}
static volatile sig_atomic_t children_of_handler;
static void fork_here(int number) {
  (void)number;
  const int error = errno;
  children_of_handler += made_child();
  errno = error;
}

/// A handler may fork, also when it interrupts fork() itself.
static void probe_forks(void) {
  struct sigaction action = {.sa_handler = fork_here}, before;
  sigaction(SIGALRM, &action, &before);
  int children = 0;
  for (int i = 0; i < 200; ++i) {
    const struct itimerval once = {{0, 0}, {0, 1 + i % 100 * 10}};
    setitimer(ITIMER_REAL, &once, NULL);
    children += made_child();
  }
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  sigaction(SIGALRM, &before, NULL);
  printf("%d children, and some of a handler: %d\n", children, children_of_handler > 0);
}

int main(int argc, char** argv) {
  if (argc != 7 || realpath(argv[1], root) == NULL) return 2;
  file_name = argv[2], sub = argv[3], sub_file = argv[4], link_name = argv[5], link_file = argv[6];
  probe_open();
  probe_reopen();
  probe_walk();
  probe_file_system();
  probe_stat();
  probe_directories();
  probe_bad_pointers();
  probe_descriptors();
  probe_sockets();
  probe_working_directory();
  probe_forks();
  return 0;
}
