/* SPDX-License-Identifier: MIT */
#include "server_data.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "aof.h"
#include "exit_code.h"
#include "message.h"
#include "server_folder.h"

#define DATA_FOLDER "appendonlydir"
#define ALL_IN_ONE "appendonly.aof" /* of Redis before 7; its successors take it over as a base */
#define MANIFEST "appendonly.aof.manifest"
#define MANIFEST_NEW "temp-lockkeeper.manifest"
#define MANIFEST_MOST 16384
#define FILES_MOST 128 /* a server has two, and one more for each rewrite that failed */
#define NAME_SIZE 64
#define KEPT_SIZE 128 /* a name with "damaged-", a time and a dash before it */
#define COPY_SIZE 65536
#define DAMAGED "the private server's data are damaged, as by a power failure: %s/%s "
#define FORGOTTEN "; %s may be forgotten"

struct data_file {
	char name[NAME_SIZE];
	long number;
	char type; /* as the manifest has it: b base, i commands since, h to be deleted */
};

struct data_list {
	struct data_file files[FILES_MOST];
	size_t count;
};

struct data {
	int state;        /* the state folder */
	int folder;       /* where the files are: DATA_FOLDER, or the state folder */
	char path[4096];  /* of that folder, */
	const char *root; /* and of the state folder */
};

static int file_trouble(const struct data *self, const char *name)
{
	return trouble_errno(errno, "the private server's data: %s/%s", self->path, name);
}

/* Opens a file to read it. 0 with NULL when it is missing; or EXIT_TROUBLE (said). */
static int file_open(const struct data *self, const char *name, FILE **file_out)
{
	struct stat status;
	/* O_NONBLOCK: whatever it is, it does not make us wait. */
	int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd = openat(self->folder, name, flags);
	*file_out = NULL;
	if (fd < 0)
		return errno == ENOENT ? 0 : file_trouble(self, name);
	if (fstat(fd, &status) == 0 && !S_ISREG(status.st_mode)) {
		close(fd);
		return trouble("the private server's data: %s/%s is not a file", self->path, name);
	}
	*file_out = fdopen(fd, "r");
	if (*file_out)
		return 0;
	int code = file_trouble(self, name);
	close(fd);
	return code;
}

struct measure {
	int exists;
	off_t size;
	off_t whole; /* of its bytes, from the start on */
};

static int file_measure(const struct data *self, const char *name, struct measure *out)
{
	struct stat status;
	FILE *file;
	int code = file_open(self, name, &file);
	*out = (struct measure){.exists = file != NULL};
	if (!file)
		return code;
	if (fstat(fileno(file), &status) || aof_measure(file, &out->whole))
		code = file_trouble(self, name);
	else
		out->size = status.st_size;
	fclose(file);
	return code;
}

/* 0, or -1 with errno. */
static int bytes_write(int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t done = write(fd, bytes, size);
		if (done < 0 && errno != EINTR)
			return -1;
		bytes += done > 0 ? done : 0;
		size -= done > 0 ? (size_t)done : 0;
	}
	return 0;
}

/* Copies what is behind `offset`. 0, or -1 with errno. */
static int rest_copy(int from, int to, off_t offset)
{
	static char bytes[COPY_SIZE];
	ssize_t got;
	while ((got = pread(from, bytes, sizeof(bytes), offset)) != 0) {
		if (got < 0 && errno != EINTR)
			return -1;
		if (got > 0 && bytes_write(to, bytes, (size_t)got))
			return -1;
		offset += got > 0 ? got : 0;
	}
	return fsync(to);
}

/* Keeps what stands behind `offset` of a file in one of its own, beside the data. */
static int rest_keep(const struct data *self, const char *name, int fd, off_t offset,
		     char kept[KEPT_SIZE])
{
	char now[32];
	struct tm parts;
	time_t seconds = time(NULL);
	strftime(now, sizeof(now), "%Y%m%dT%H%M%SZ", gmtime_r(&seconds, &parts));
	snprintf(kept, KEPT_SIZE, "damaged-%s-%s", now, name);
	int to = folder_file(self->state, kept, O_WRONLY | O_TRUNC);
	int code = 0;
	if (to < 0 || rest_copy(fd, to, offset) || fsync(self->state))
		code = trouble_errno(errno,
				     "the private server's data are damaged: cannot keep a copy of "
				     "%s/%s as %s/%s",
				     self->path, name, self->root, kept);
	if (to >= 0)
		close(to);
	return code;
}

static const char *forgotten(const struct data_file *file)
{
	if (strcmp(file->name, ALL_IN_ONE) == 0)
		return "locks and counts";
	return file->type == 'b' ? "locks and counts that are older than the server's last start"
				 : "the last changes of locks and counts";
}

/* Cuts off what is not whole, when a copy of it is safe and the user knows. */
static int file_cut(const struct data *self, const struct data_file *file, const struct measure *is)
{
	char kept[KEPT_SIZE];
	int fd = openat(self->folder, file->name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return file_trouble(self, file->name);
	int code = rest_keep(self, file->name, fd, is->whole, kept);
	if (code == 0)
		message(DAMAGED "cannot be read from byte %lld of %lld on" FORGOTTEN
				". The rest of it is kept as %s/%s",
			self->path, file->name, (long long)is->whole, (long long)is->size,
			forgotten(file), self->root, kept);
	if (code == 0 && (ftruncate(fd, is->whole) || fsync(fd)))
		code = file_trouble(self, file->name);
	close(fd);
	return code;
}

/* An empty file stands for one that is gone: the servers take it. */
static int file_replace(const struct data *self, const struct data_file *file)
{
	message(DAMAGED "is missing" FORGOTTEN, self->path, file->name, forgotten(file));
	int fd = folder_file(self->folder, file->name, O_WRONLY);
	if (fd < 0)
		return file_trouble(self, file->name);
	int code = fsync(fd) || fsync(self->folder) ? file_trouble(self, file->name) : 0;
	close(fd);
	return code;
}

static int file_mend(const struct data *self, const struct data_file *file)
{
	struct measure is;
	int code = file->type == 'h' ? 0 : file_measure(self, file->name, &is);
	if (code || file->type == 'h')
		return code;
	if (!is.exists)
		return file_replace(self, file);
	if (is.size == 0 && file->type == 'b')
		message(DAMAGED "is empty" FORGOTTEN, self->path, file->name, forgotten(file));
	return is.whole < is.size ? file_cut(self, file, &is) : 0;
}

/* One line of the manifest. 1 when it names a file of ours. */
static int line_read(const char *line, struct data_file *file_out)
{
	return sscanf(line, "file %63s seq %ld type %c", file_out->name, &file_out->number,
		      &file_out->type) == 3 &&
	       strchr("bih", file_out->type) && !strchr(file_out->name, '/') &&
	       file_out->number > 0;
}

/* Reads the manifest's text, which may hold anything. 1 when each line is one. */
static int lines_read(char *text, size_t size, struct data_list *list)
{
	list->count = 0;
	if (size == 0 || text[size - 1] != '\n' || strlen(text) != size)
		return 0;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (line[0] == '#')
			continue;
		if (list->count == FILES_MOST || !line_read(line, &list->files[list->count]))
			return 0;
		list->count++;
	}
	return 1;
}

/* A file that the name alone tells about. 1 when it is one of the data. */
static int name_read(const char *name, struct data_file *file_out)
{
	char role[5], format[4];
	int end = 0;
	if (strlen(name) >= NAME_SIZE ||
	    sscanf(name, ALL_IN_ONE ".%ld.%4[a-z].%3[a-z]%n", &file_out->number, role, format,
		   &end) != 3 ||
	    name[end] != '\0' || file_out->number <= 0)
		return 0;
	memcpy(file_out->name, name, strlen(name) + 1);
	file_out->type = role[0];
	return strcmp(role, "base") == 0 || strcmp(role, "incr") == 0;
}

/* The base before the others, then by their numbers. */
static int files_compare(const void *left, const void *right)
{
	const struct data_file *one = left, *other = right;
	if (one->type != other->type)
		return one->type < other->type ? -1 : 1;
	return (one->number > other->number) - (one->number < other->number);
}

/* The files that are there, sorted. */
static int files_find(const struct data *self, struct data_list *list)
{
	const struct dirent *entry;
	list->count = 0;
	int fd = openat(self->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *walk = fd < 0 ? NULL : fdopendir(fd);
	if (!walk) {
		int code = file_trouble(self, "");
		if (fd >= 0)
			close(fd);
		return code;
	}
	while (list->count < FILES_MOST && (entry = readdir(walk)))
		list->count += (size_t)name_read(entry->d_name, &list->files[list->count]);
	closedir(walk);
	qsort(list->files, list->count, sizeof(list->files[0]), files_compare);
	return 0;
}

/* 1 when `list` names commands, which a server's always does, and no later ones are there beside
 * it: a manifest that was cut between two lines looks whole, and a server would overwrite them. */
static int list_is_complete(const struct data *self, const struct data_list *list,
			    const struct data_list *found)
{
	struct stat status;
	long last = 0;
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->files[i].name, ALL_IN_ONE) == 0)
			return 1; /* of a server that is taking over an older one's file */
		if (list->files[i].type == 'i' && list->files[i].number > last)
			last = list->files[i].number;
	}
	for (size_t i = 0; i < found->count && last > 0; i++) {
		const struct data_file *file = &found->files[i];
		if (file->type == 'i' && file->number > last &&
		    fstatat(self->folder, file->name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		    status.st_size > 0)
			return 0;
	}
	return last > 0;
}

/*
 * Chooses from the files that are there: the last base that is whole (else the last one), and the
 * commands from its number on. Each rewrite raises both numbers, and one that fails that of the
 * commands alone; so commands with a lower number are older than the base.
 */
static int files_choose(const struct data *self, struct data_list *list)
{
	size_t bases = 0, base, kept = 0;
	while (bases < list->count && list->files[bases].type == 'b')
		bases++;
	for (base = bases; base-- > 0;) {
		struct measure is;
		int code = file_measure(self, list->files[base].name, &is);
		if (code)
			return code;
		if (is.size > 0 && is.whole == is.size)
			break;
	}
	if (base == (size_t)-1 && bases > 0)
		base = bases - 1;
	long from = bases > 0 ? list->files[base].number : 0;
	for (size_t i = 0; i < list->count; i++) {
		if (i == base || (i >= bases && list->files[i].number >= from))
			list->files[kept++] = list->files[i];
	}
	list->count = kept;
	return 0;
}

/* Puts a new manifest into the old one's place, at once. 0, or -1 with errno. */
static int list_write(const struct data *self, const struct data_list *list)
{
	char line[KEPT_SIZE];
	int fd = folder_file(self->folder, MANIFEST_NEW, O_WRONLY | O_TRUNC);
	int result = fd < 0 ? -1 : 0;
	for (size_t i = 0; i < list->count && result == 0; i++) {
		const struct data_file *file = &list->files[i];
		int length = snprintf(line, sizeof(line), "file %s seq %ld type %c\n", file->name,
				      file->number, file->type);
		result = bytes_write(fd, line, (size_t)length);
	}
	if (result == 0)
		result = fsync(fd);
	if (fd >= 0)
		close(fd);
	if (result == 0)
		result = renameat(self->folder, MANIFEST_NEW, self->folder, MANIFEST);
	return result ? result : fsync(self->folder);
}

/* Makes the manifest anew. With no files to name, it goes: the server makes another. */
static int list_remake(const struct data *self, struct data_list *list)
{
	int code = files_choose(self, list);
	if (code)
		return code;
	message(DAMAGED "does not list its files; a new list names those that are there%s",
		self->path, MANIFEST,
		list->count ? "" : ", which are none: all locks and counts are forgotten");
	if (list->count > 0 ? list_write(self, list) : unlinkat(self->folder, MANIFEST, 0))
		return file_trouble(self, MANIFEST);
	return 0;
}

/* The files in their order; a new manifest replaces a bad one. */
static int list_find(const struct data *self, struct data_list *list)
{
	static struct data_list found;
	char text[MANIFEST_MOST] = "";
	FILE *file;
	int code = file_open(self, MANIFEST, &file);
	if (code)
		return code;
	size_t size = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	if (file && ferror(file))
		code = file_trouble(self, MANIFEST);
	if (file)
		fclose(file);
	if (code == 0)
		code = files_find(self, &found);
	if (code || (lines_read(text, size, list) && list_is_complete(self, list, &found)))
		return code;
	*list = found;
	return file || found.count ? list_remake(self, list) : 0;
}

static int files_mend(const struct data *self)
{
	static struct data_list list;
	int code = list_find(self, &list);
	for (size_t i = 0; i < list.count && code == 0; i++) {
		/* One that a server has not taken over yet. */
		if (strcmp(list.files[i].name, ALL_IN_ONE) != 0 ||
		    faccessat(self->state, ALL_IN_ONE, F_OK, 0) != 0)
			code = file_mend(self, &list.files[i]);
	}
	return code;
}

/* The one file of Redis before 7. */
static int all_in_one_mend(const struct data *self)
{
	static const struct data_file file = {ALL_IN_ONE, 1, 'i'};
	if (faccessat(self->state, ALL_IN_ONE, F_OK, 0))
		return 0;
	return file_mend(self, &file);
}

int server_data_mend(int folder, const char *path)
{
	struct data self = {.state = folder, .folder = folder, .root = path};
	snprintf(self.path, sizeof(self.path), "%s", path);
	int code = all_in_one_mend(&self);
	if (code)
		return code;
	self.folder = openat(folder, DATA_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (self.folder < 0)
		return errno == ENOENT ? 0 : file_trouble(&self, DATA_FOLDER);
	snprintf(self.path, sizeof(self.path), "%s/" DATA_FOLDER, path);
	code = files_mend(&self);
	close(self.folder);
	return code;
}
