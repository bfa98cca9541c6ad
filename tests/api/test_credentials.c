/* Credentials that change while a client lives: from the program, and from a file. */
#include "fixture.h"

#include <unistd.h>

struct vault {
	pthread_mutex_t mutex;
	const char *username, *password;
	int asked, fails;
	char place[128];
};

static int vault_gives(void *context, const char *place, lk_credentials *credentials_out)
{
	struct vault *vault = context;
	pthread_mutex_lock(&vault->mutex);
	vault->asked++;
	bool fails = vault->fails > 0;
	vault->fails -= fails;
	snprintf(vault->place, sizeof(vault->place), "%s", place);
	snprintf(credentials_out->username, sizeof(credentials_out->username), "%s",
		 vault->username);
	snprintf(credentials_out->password, sizeof(credentials_out->password), "%s",
		 vault->password);
	pthread_mutex_unlock(&vault->mutex);
	return fails ? -1 : 0;
}

static void vault_set(struct vault *vault, const char *username, const char *password, int fails)
{
	pthread_mutex_lock(&vault->mutex);
	vault->username = username;
	vault->password = password;
	vault->fails = fails;
	pthread_mutex_unlock(&vault->mutex);
}

/* A connection in the background may ask at any moment. */
static int vault_number(struct vault *vault, const int *number)
{
	pthread_mutex_lock(&vault->mutex);
	int value = *number;
	pthread_mutex_unlock(&vault->mutex);
	return value;
}

static lk_config *new_config(void)
{
	lk_config *config = NULL;
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", server.url_unix, &err));
	expect(0, lk_config_set(config, "backoff_max_ms", "50", &err));
	return config;
}

static lk_client *client_of(lk_config *config)
{
	lk_client *client = NULL;
	expect(0, lk_client_new(&client, config, &err));
	lk_config_free(config);
	return client;
}

static void kill_connections(void)
{
	redis_do(&server, "CLIENT KILL TYPE normal");
}

/* The user "keeper" has this password from now on, and no connection. */
static void rotate(const char *password)
{
	redis_do(&server, "ACL SETUSER keeper reset on ~* &* +@all >%s", password);
	kill_connections();
}

static void take_and_give(lk_client *client)
{
	own_lock *lock = new_lock(client, "c");
	expect(0, lk_lock_acquire(lock, 10000, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
}

static void test_the_program_is_asked_for_each_connection(void **state)
{
	struct vault vault = {PTHREAD_MUTEX_INITIALIZER, "keeper", "one", 0, 0, ""};
	lk_config *config = new_config();
	lk_config_set_credentials(config, vault_gives, &vault);
	rotate("one");
	lk_client *client = client_of(config);
	take_and_give(client);
	check(vault_number(&vault, &vault.asked) > 0);
	vault_set(&vault, "keeper", "two", 0);
	rotate("two");
	int asked = vault_number(&vault, &vault.asked);
	take_and_give(client);
	check(vault_number(&vault, &vault.asked) > asked);
	close_client(client);
	check(strstr(server.url_unix, vault.place) != NULL);
	redis_do(&server, "ACL DELUSER keeper");
}

static void test_a_program_without_credentials(void **state)
{
	struct vault vault = {PTHREAD_MUTEX_INITIALIZER, "keeper", "one", 0, 1, ""};
	lk_config *config = new_config();
	lk_config_set_credentials(config, vault_gives, &vault);
	rotate("one");
	lk_client *client = client_of(config);
	lk_lock *lock = new_lock(client, "c");
	expect(LK_EUNREACHABLE, lk_lock_acquire(lock, 0, NULL, &err));
	check(strstr(err.message, "the program has no credentials") != NULL);
	wait_until(lk_lock_acquire(lock, 0, NULL, NULL) == 0, 10000);
	expect(0, lk_lock_release(lock, NULL, &err));
	vault_set(&vault, "keeper", "one", 3); /* and a wait goes on */
	kill_connections();
	take_and_give(client);
	check_int(vault_number(&vault, &vault.fails), ==, 0);
	lk_lock_free(lock);
	close_client(client);
	redis_do(&server, "ACL DELUSER keeper");
}

static void test_wrong_credentials(void **state)
{
	struct vault vault = {PTHREAD_MUTEX_INITIALIZER, "keeper", "wrong", 0, 0, ""};
	lk_config *config = new_config();
	lk_config_set_credentials(config, vault_gives, &vault);
	rotate("right");
	lk_client *client = client_of(config);
	lk_lock *lock = new_lock(client, "c");
	expect(LK_EAUTH, lk_lock_acquire(lock, 0, NULL, &err));
	check(strstr(err.message, "wrong") == NULL);
	vault_set(&vault, "keeper", "right", 0);
	wait_until(lk_lock_acquire(lock, 0, NULL, NULL) == 0, 10000);
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	close_client(client);
	redis_do(&server, "ACL DELUSER keeper");
}

/* As a process that is stopped now and then. */
static int slow_vault(void *context, const char *place, lk_credentials *credentials_out)
{
	usleep(300000);
	return vault_gives(context, place, credentials_out);
}

/* Nothing is asked of the program when the client has gone. */
static void test_closed_while_it_asks(void **state)
{
	needs_a_thread();
	rotate("one");
	for (int i = 0; i < 5; i++) {
		struct vault *vault = calloc(1, sizeof(*vault));
		*vault = (struct vault){PTHREAD_MUTEX_INITIALIZER, "keeper", "one", 0, 0, ""};
		lk_config *config = new_config();
		lk_config_set_credentials(config, slow_vault, vault);
		lk_client *client = client_of(config);
		lk_lock *lock = new_lock(client, "c");
		lk_lock_acquire(lock, 75 * i, NULL, NULL);
		lk_lock_free(lock);
		drop_client(client);
		free(vault);
	}
	redis_do(&server, "ACL DELUSER keeper");
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	check(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void test_a_file_is_read_again(void **state)
{
	char path[64];
	snprintf(path, sizeof(path), "/tmp/lk-password-%d", (int)getpid());
	write_file(path, "one\n");
	rotate("one");
	lk_config *config = new_config();
	expect(0, lk_config_set(config, "username", "keeper", &err));
	expect(0, lk_config_set(config, "password_file", path, &err));
	lk_client *client = client_of(config);
	take_and_give(client);
	write_file(path, "two\n");
	rotate("two");
	take_and_give(client);
	unlink(path); /* then the password stands that the option was set with */
	rotate("one");
	take_and_give(client);
	write_file(path, "\n");
	kill_connections();
	take_and_give(client);
	unlink(path);
	close_client(client);
	redis_do(&server, "ACL DELUSER keeper");
}

/* Who sets the password itself does not want the file's. */
static void test_a_password_replaces_the_file(void **state)
{
	char path[64], value[16];
	snprintf(path, sizeof(path), "/tmp/lk-password-%d", (int)getpid());
	write_file(path, "wrong\n");
	rotate("one");
	lk_config *config = new_config();
	expect(0, lk_config_set(config, "username", "keeper", &err));
	expect(0, lk_config_set(config, "password_file", path, &err));
	expect(0, lk_config_set(config, "password", "one", &err));
	check_int(lk_config_get(config, "password_file", value, sizeof(value)), ==, 0);
	lk_client *client = client_of(config);
	take_and_give(client);
	unlink(path);
	close_client(client);
	redis_do(&server, "ACL DELUSER keeper");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_the_program_is_asked_for_each_connection),
		api_test(test_a_program_without_credentials),
		api_test(test_wrong_credentials),
		api_test(test_closed_while_it_asks),
		api_test(test_a_file_is_read_again),
		api_test(test_a_password_replaces_the_file),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
