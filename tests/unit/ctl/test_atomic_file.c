/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are replaced whole or not at all. */
#include "ctl/output/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/suite.h"

#define ANOTHER 65534

static char folder[] = "/tmp/gpumem-atomic-XXXXXX";
static char path[64];

static const char *in_folder(const char *name)
{
        (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
        return path;
}

static void put(const char *name, const char *text, mode_t mode)
{
        FILE *file = fopen(in_folder(name), "w");

        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs(text, file), 0);
        ck_assert_int_eq(fclose(file), 0);
        ck_assert_int_eq(chmod(path, mode), 0);
}

static void must_hold(const char *name, const char *text, mode_t mode)
{
        char found[256] = "";
        struct stat there;
        FILE *file = fopen(in_folder(name), "r");

        ck_assert_ptr_nonnull(file);
        (void)!fread(found, 1, sizeof(found) - 1, file);
        ck_assert_str_eq(found, text);
        ck_assert_int_eq(fstat(fileno(file), &there), 0);
        ck_assert_uint_eq(there.st_mode & 07777, mode);
        ck_assert_int_eq(fclose(file), 0);
}

/* No half of a file is left beside. */
static unsigned n_files(void)
{
        DIR *opened = opendir(folder);
        const struct dirent *entry;
        unsigned n = 0;

        ck_assert_ptr_nonnull(opened);
        while ((entry = readdir(opened)))
                n += *entry->d_name != '.';
        ck_assert_int_eq(closedir(opened), 0);
        return n;
}

static int replace(const char *name, const char *text)
{
        return atomic_file_replace(in_folder(name), text, strlen(text));
}

static void start(void)
{
        (void)strcpy(folder, "/tmp/gpumem-atomic-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void stop(void)
{
        char command[80];

        (void)snprintf(command, sizeof(command), "rm -rf %s", folder);
        ck_assert_int_eq(system(command), 0);
}

TEST(a_new_file_may_be_read_by_all)
{
        ck_assert_int_eq(replace("file", "new"), 0);
        must_hold("file", "new", 0644);
        ck_assert_uint_eq(n_files(), 1);
}

TEST(what_is_there_keeps_its_mode)
{
        put("file", "old and longer", 0640);
        ck_assert_int_eq(replace("file", "new"), 0);
        must_hold("file", "new", 0640);
        ck_assert_int_eq(atomic_file_write(in_folder("file"), "again", 5), 0);
        must_hold("file", "again", 0644);
        ck_assert_uint_eq(n_files(), 1);
}

TEST(it_keeps_its_owner)
{
        struct stat there;

        if (geteuid())
                return;
        put("file", "old", 0600);
        ck_assert_int_eq(chown(path, ANOTHER, ANOTHER), 0);
        ck_assert_int_eq(replace("file", "new"), 0);
        ck_assert_int_eq(stat(path, &there), 0);
        ck_assert_uint_eq(there.st_uid, ANOTHER);
        ck_assert_uint_eq(there.st_gid, ANOTHER);
}

TEST(links_and_folders_stay)
{
        char at[64];

        put("file", "old", 0644);
        (void)snprintf(at, sizeof(at), "%s/link", folder);
        ck_assert_int_eq(symlink("file", at), 0);
        ck_assert_int_eq(replace("link", "new"), -EEXIST);
        ck_assert_int_eq(mkdir(in_folder("folder"), 0755), 0);
        ck_assert_int_eq(replace("folder", "new"), -EEXIST);
        must_hold("file", "old", 0644);
        must_hold("link", "old", 0644);
        ck_assert_uint_eq(n_files(), 3);
}

TEST(a_link_that_leads_nowhere_stays)
{
        ck_assert_int_eq(symlink("nowhere", in_folder("link")), 0);
        ck_assert_int_eq(replace("link", "new"), -EEXIST);
        ck_assert_uint_eq(n_files(), 1);
}

TEST(without_a_folder_there_is_no_file)
{
        ck_assert_int_eq(replace("no/file", "new"), -ENOENT);
        ck_assert_uint_eq(n_files(), 0);
}

TEST(who_may_not_write_changes_nothing)
{
        int r;

        put("file", "old", 0644);
        ck_assert_int_eq(chmod(folder, 0555), 0);
        if (!geteuid())
                ck_assert_int_eq(seteuid(ANOTHER), 0);
        r = replace("file", "new");
        ck_assert_int_eq(seteuid(getuid()), 0);
        ck_assert_int_eq(r, -EACCES);
        must_hold("file", "old", 0644);
        ck_assert_uint_eq(n_files(), 1);
}

/* In a folder of one's own, but the file is another's: its owner could not stay. */
TEST(anothers_file_is_not_replaced)
{
        int r;

        if (geteuid())
                return;
        put("file", "old", 0644);
        ck_assert_int_eq(chmod(folder, 0777), 0);
        ck_assert_int_eq(seteuid(ANOTHER), 0);
        r = replace("file", "new");
        ck_assert_int_eq(seteuid(0), 0);
        ck_assert_int_eq(r, -EPERM);
        must_hold("file", "old", 0644);
        ck_assert_uint_eq(n_files(), 1);
}

/* A disk that is full after the first bytes: the old file is whole, and no half is beside it. */
TEST(without_room_the_old_file_stays_whole)
{
        const struct rlimit few = {4, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
        int r;

        put("file", "old", 0600);
        (void)signal(SIGXFSZ, SIG_IGN);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &few), 0);
        r = replace("file", "new and longer");
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &all), 0);
        ck_assert_int_eq(r, -EFBIG);
        must_hold("file", "old", 0600);
        ck_assert_uint_eq(n_files(), 1);
}

TESTS_MAIN("atomic_file", .start = start, .stop = stop)
