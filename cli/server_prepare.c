/* SPDX-License-Identifier: MIT */
#include "server_prepare.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lockkeeper.h>

#include "clock.h"
#include "exit_code.h"
#include "kind.h"
#include "message.h"
#include "server_talk.h"

#define ANSWER_LIMIT_MS 3000
#define REWRITE_LIMIT_MS 15000
#define TURN_MS 5

int locks_walk(const char *url,
	       int (*each)(lk_client *client, const lk_lock_info *info, void *state), void *state)
{
	lk_error error = {0};
	lk_config *config = NULL;
	lk_client *client = NULL;
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	int code = 0, result = lk_config_new(&config, &error);
	if (result == 0) /* of the environment's options, which are for another server, none */
		result = lk_config_set(config, "url", url, &error);
	if (result == 0)
		result = lk_client_new(&client, config, &error);
	if (result == 0)
		result = lk_scan_new(&scan, client, NULL, &error);
	while (result == 0 && code == 0 && (result = lk_scan_next(scan, &info, &error)) == 1) {
		code = each(client, &info, state);
		result = 0;
	}
	lk_scan_free(scan);
	lk_client_free(client);
	lk_config_free(config);
	return result < 0 ? trouble_library(&error) : code;
}

/* Breaks a lock that a holder has without an end. */
static int lock_mend(lk_client *client, const lk_lock_info *info, void *state)
{
	lk_error error = {0};
	lk_lock *lock = NULL;
	const struct lock_kind *kind = kind_of(info);
	(void)state;
	if (!kind || info->holder_count == 0 || info->ttl_ms >= 0)
		return 0;
	int result = kind->make(&lock, client, info->name, info->name_size, &error);
	if (result == 0)
		result = lk_lock_force_release(lock, &error);
	lk_lock_free(lock);
	if (result < 0)
		return trouble_library(&error);
	message("freed %s, which was held on the private server without an expiry", info->name);
	return 0;
}

/* 0 when the server answers OK. */
static int setting_change(int fd, const char *command)
{
	char reply[200];
	int64_t deadline_ns = clock_now_ns() + ANSWER_LIMIT_MS * NS_PER_MS;
	if (talk_ask(fd, command, reply, sizeof(reply), deadline_ns))
		return trouble_errno(errno, "the private server: %s", command);
	if (reply[0] == '+')
		return 0;
	return trouble("the private server: %s: %.*s", command, (int)strcspn(reply, "\r"), reply);
}

static int rewrite_await(int fd)
{
	char reply[8192];
	int64_t deadline_ns = clock_now_ns() + REWRITE_LIMIT_MS * NS_PER_MS;
	do {
		poll(NULL, 0, TURN_MS);
		if (talk_ask(fd, "INFO persistence", reply, sizeof(reply), deadline_ns))
			break;
		if (strstr(reply, "aof_last_bgrewrite_status:err")) /* it tries again by itself */
			return trouble("the private server cannot rewrite its data; is the disk "
				       "full? See redis.log");
		if (strstr(reply, "aof_rewrite_in_progress:0") &&
		    strstr(reply, "aof_rewrite_scheduled:0"))
			return 0;
	} while (clock_now_ns() < deadline_ns);
	return trouble("the private server does not finish rewriting its data");
}

/*
 * Not by BGREWRITEAOF: that would put the torn file into the middle of the list of files, where
 * the server does not accept it, should it die before the end. This way the old list holds until
 * the new file is whole.
 */
static int data_rewrite(const struct server_socket *socket)
{
	struct server_view view;
	int64_t deadline_ns = clock_now_ns() + ANSWER_LIMIT_MS * NS_PER_MS;
	int fd = talk_open(socket, deadline_ns, &view);
	if (fd < 0)
		return server_complain(&view);
	int code = setting_change(fd, "CONFIG SET appendonly no");
	if (code == 0)
		code = setting_change(fd, "CONFIG SET appendonly yes");
	if (code == 0)
		code = rewrite_await(fd);
	close(fd);
	return code;
}

int server_prepare(int folder, const struct server_socket *socket, int had_data)
{
	int code = had_data ? locks_walk(socket->url, lock_mend, NULL) : 0;
	if (code == 0 && had_data)
		code = data_rewrite(socket);
	if (code == 0 && renameat(folder, "start.sock", folder, "redis.sock"))
		code = trouble_errno(errno, "the private server's socket");
	return code;
}
