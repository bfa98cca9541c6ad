/* SPDX-License-Identifier: MIT */
#include "job_metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "exposition.h"
#include "message.h"

#define FILE_SIZE_MAX 65536 /* ours have 3 kB and a name */
#define LOCK_TRIES 100      /* 10 ms each: others write for less */
#define ENDING ".prom"

/* The rows of a family stand together. `scale`: how many of our units are one of the series'. */
static const struct {
	const char *family, *type, *result, *help;
	int64_t scale;
} table[JOB_SERIES] = {
	[JOB_START] = {"last_start_timestamp_seconds", "gauge", "",
		       "When the command was last started.", 1000},
	[JOB_END] = {"last_end_timestamp_seconds", "gauge", "", "When it last ended.", 1000},
	[JOB_LAST_SUCCESS] = {"last_success_timestamp_seconds", "gauge", "",
			      "When it last ended with 0.", 1000},
	[JOB_DURATION] = {"last_duration_seconds", "gauge", "", "How long it last ran.", 1000},
	[JOB_WAIT] = {"last_wait_seconds", "gauge", "",
		      "How long it last waited for its lock before it started.", 1000},
	[JOB_STATUS] = {"last_exit_status", "gauge", "",
			"The exit status of lockkeeper when it last ended.", 1},
	[JOB_RUNNING] = {"running", "gauge", "",
			 "1 while it runs; it stays 1 where lockkeeper was killed.", 1},
	[JOB_SKIPS] = {"skips_in_a_row", "gauge", "",
		       "Runs skipped since the last one that started: another had the lock.", 1},
	[JOB_SUCCEEDED] = {"runs_total", "counter", "success", "Runs by result.", 1},
	[JOB_FAILED] = {"runs_total", "counter", "failure", "", 1},
	[JOB_SKIPPED] = {"runs_total", "counter", "skipped", "", 1},
	[JOB_LOST] = {"runs_total", "counter", "lost", "", 1},
	[JOB_REFUSED] = {"runs_total", "counter", "error", "", 1},
};

static int64_t wall_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

/* ---- the text ---- */

/* The line's name and labels, with the blank behind them. */
static void put_name(FILE *stream, const char *lock, enum job_series series)
{
	fprintf(stream, "lockkeeper_job_%s{lock=\"", table[series].family);
	exposition_label(stream, lock, strlen(lock));
	if (*table[series].result)
		fprintf(stream, "\",result=\"%s", table[series].result);
	fputs("\"} ", stream);
}

static void put_value(FILE *stream, int64_t value, int64_t scale)
{
	if (scale > 1)
		exposition_thousandths(stream, value);
	else
		fprintf(stream, "%" PRId64 "\n", value);
}

static void put_all(FILE *stream, const char *lock, const int64_t value[JOB_SERIES])
{
	char family[128];
	for (enum job_series i = 0; i < JOB_SERIES; i++) {
		snprintf(family, sizeof(family), "lockkeeper_job_%s", table[i].family);
		if (*table[i].help)
			exposition_family(stream, family, table[i].type, table[i].help);
		put_name(stream, lock, i);
		put_value(stream, value[i], table[i].scale);
	}
}

/* ---- what the file had ---- */

/* A number as put_value() writes it; anything else is 0. */
static int64_t value_read(const char *text, int64_t scale)
{
	char *end;
	errno = 0;
	long long whole = strtoll(text, &end, 10), part = 0;
	if (errno || end == text || whole < 0 || whole > INT64_MAX / 2000)
		return 0;
	if (scale > 1 && *end == '.')
		part = strtoll(end + 1, &end, 10);
	return *end == '\n' && part >= 0 && part < scale ? whole * scale + part : 0;
}

/* The series of this lock; what the file lacks stays 0. */
static void text_read(const char *text, const char *lock, int64_t value_out[JOB_SERIES])
{
	for (enum job_series i = 0; i < JOB_SERIES; i++) {
		char *name = NULL;
		size_t size = 0;
		FILE *stream = open_memstream(&name, &size);
		if (!stream)
			return;
		putc('\n', stream);
		put_name(stream, lock, i);
		const char *at = fclose(stream) == 0 ? strstr(text, name) : NULL;
		if (at)
			value_out[i] = value_read(at + size, table[i].scale);
		free(name);
	}
}

/* 0, or -1 with errno: it is there and cannot be read, or is no file of ours. */
static int file_read(int folder, const char *name, const char *lock, int64_t value_out[JOB_SERIES])
{
	static char text[FILE_SIZE_MAX + 1];
	struct stat status;
	int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	ssize_t size = -1;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
		size = read(fd, text, FILE_SIZE_MAX);
	else
		errno = EINVAL;
	int why = errno;
	close(fd);
	errno = why;
	if (size < 0)
		return -1;
	text[size] = '\0';
	text_read(text, lock, value_out);
	return 0;
}

/* ---- the file ---- */

/* Two runs of one job do not forget each other's counts. The folder is locked for as long as it
 * takes to write; whoever holds it longer than a second is not waited for. */
static int folder_open(const char *path, const char **name_out)
{
	char folder[4096];
	const char *slash = strrchr(path, '/');
	size_t size = slash ? (size_t)(slash - path) + (slash == path) : 1;
	if (size >= sizeof(folder)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(folder, slash ? path : ".", size);
	folder[size] = '\0';
	*name_out = slash ? slash + 1 : path;
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && i < LOCK_TRIES; i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, 10 * NS_PER_MS}, NULL);
	return fd;
}

static int stream_finish(FILE *stream)
{
	int failed = ferror(stream) || fflush(stream);
	/* Collectors run as another user, and the job may have any umask. */
	failed |= fchmod(fileno(stream), 0644);
	int why = errno;
	failed |= fclose(stream);
	errno = why ? why : errno;
	return failed ? -1 : 0;
}

static int file_write(int folder, const char *name, const char *lock,
		      const int64_t value[JOB_SERIES])
{
	char other[NAME_MAX + 1];
	/* Collectors read what ends in .prom. One name: nothing piles up where runs are killed. */
	if (snprintf(other, sizeof(other), ".%s.new", name) >= (int)sizeof(other)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	unlinkat(folder, other, 0);
	int fd = openat(folder, other, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	FILE *stream = fd < 0 ? NULL : fdopen(fd, "w");
	if (!stream)
		return -1;
	put_all(stream, lock, value);
	if (stream_finish(stream) == 0 && renameat(folder, other, folder, name) == 0)
		return 0;
	int why = errno;
	unlinkat(folder, other, 0);
	errno = why;
	return -1;
}

/* Changes the file: `change` gets what it had. */
static void file_change(const struct job_metrics *metrics,
			void (*change)(const struct job_metrics *metrics, const void *what,
				       int64_t value[JOB_SERIES]),
			const void *what)
{
	int64_t value[JOB_SERIES] = {0};
	const char *name;
	if (!metrics->path)
		return;
	int folder = folder_open(metrics->path, &name);
	if (folder < 0 || file_read(folder, name, metrics->lock, value) < 0) {
		trouble_errno(errno, "cannot write the metrics file %s", metrics->path);
	} else {
		change(metrics, what, value);
		if (file_write(folder, name, metrics->lock, value) < 0)
			trouble_errno(errno, "cannot write the metrics file %s", metrics->path);
	}
	if (folder >= 0)
		close(folder);
}

/* ---- the changes ---- */

int job_metrics_check(const char *path)
{
	size_t size = strlen(path), end = strlen(ENDING);
	if (size <= end || strcmp(path + size - end, ENDING) != 0 || path[size - end - 1] == '/')
		return trouble("option --metrics-file: '%s' does not end in NAME" ENDING
			       ", as collectors want it",
			       path);
	return 0;
}

void job_metrics_begin(struct job_metrics *metrics, const char *path, const char *lock)
{
	*metrics = (struct job_metrics){.path = path, .lock = lock, .begun_ns = clock_now_ns()};
}

static void start_change(const struct job_metrics *metrics, const void *what,
			 int64_t value[JOB_SERIES])
{
	(void)what;
	value[JOB_START] = wall_ms();
	value[JOB_WAIT] = (metrics->granted_ns - metrics->begun_ns) / NS_PER_MS;
	value[JOB_RUNNING] = 1;
	value[JOB_SKIPS] = 0;
}

void job_metrics_started(struct job_metrics *metrics)
{
	metrics->granted_ns = clock_now_ns();
	file_change(metrics, start_change, NULL);
}

struct end {
	int code, lost;
};

static void end_change(const struct job_metrics *metrics, const void *what,
		       int64_t value[JOB_SERIES])
{
	const struct end *end = what;
	value[JOB_END] = wall_ms();
	value[JOB_DURATION] = (clock_now_ns() - metrics->granted_ns) / NS_PER_MS;
	value[JOB_STATUS] = end->code;
	value[JOB_RUNNING] = 0;
	value[end->lost ? JOB_LOST : end->code ? JOB_FAILED : JOB_SUCCEEDED]++;
	if (end->code == 0 && !end->lost)
		value[JOB_LAST_SUCCESS] = value[JOB_END];
}

void job_metrics_ended(const struct job_metrics *metrics, int code, int lost)
{
	file_change(metrics, end_change, &(struct end){code, lost});
}

static void miss_change(const struct job_metrics *metrics, const void *what,
			int64_t value[JOB_SERIES])
{
	const int *skipped = what;
	(void)metrics;
	value[*skipped ? JOB_SKIPPED : JOB_REFUSED]++;
	value[JOB_SKIPS] += *skipped;
}

void job_metrics_missed(const struct job_metrics *metrics, int skipped)
{
	file_change(metrics, miss_change, &skipped);
}
