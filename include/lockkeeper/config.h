/*
 * Configuration of a client: a URL and named options.
 *
 * The options come from one table (src/conf/options.def), which also feeds the environment
 * (LOCKKEEPER_<NAME>), the command's `-o name=value`, and docs/options.md. URLs:
 *
 *   redis://[user[:password]@]host[:port][/db]
 *   rediss://[user[:password]@]host[:port][/db]     TLS; peer and host name are verified
 *   unix://path            unix://[user[:password]@]path[?db=N]
 *
 * Reserved characters in user, password and path are written %XX. IPv6 addresses stand in
 * brackets. A query sets options: redis://host?client_name=worker&spin_us=0 (db is short for
 * database; url, username, password and password_file cannot stand there). Whatever sets an
 * option last wins; a URL leaves alone what it does not name.
 *
 * A configuration is for one thread at a time. Its calls do no I/O, but for reading a file that
 * password_file names.
 */
#ifndef LOCKKEEPER_CONFIG_H
#define LOCKKEEPER_CONFIG_H

#include <stddef.h>

#include <lockkeeper/error.h>

typedef struct lk_config lk_config;

/* Levels of the log callback. */
#define LK_LOG_ERROR 1
#define LK_LOG_WARNING 2
#define LK_LOG_INFO 3
#define LK_LOG_DEBUG 4

/*
 * Takes one line of log, without a newline; never a password. Called on any thread, also the
 * library's own; must not call the library and should return soon.
 */
typedef void (*lk_log_callback)(void *context, int level, const char *line);

/* One row of the table of options; all texts are static. */
typedef struct lk_option_info {
	const char *name;          /* "command_timeout_ms" */
	const char *environment;   /* "LOCKKEEPER_COMMAND_TIMEOUT_MS", or NULL where not read */
	const char *type;          /* "milliseconds", "integer", "text", "file", "secret", … */
	const char *default_value; /* as text; "" for none */
	const char *range;         /* "1 … 3600000", or "" */
	const char *description;   /* one sentence */
} lk_option_info;

LK_BEGIN_DECLS

/*
 * Makes a configuration with every option at its default, to be freed with lk_config_free().
 * Errors: LK_EINVAL, LK_ENOMEM. Since 0.1.
 */
LK_API int lk_config_new(lk_config **config_out, lk_error *error);

/*
 * Frees it and wipes its secrets; clients made from it have copies. NULL is fine. Returns NULL.
 * Since 0.1.
 */
LK_API lk_config *lk_config_free(lk_config *config);

/*
 * Sets one option from text, which is copied. The whole text must be valid and in range, else
 * LK_EINVAL with a message that names option, value and reason, and nothing is changed. Option
 * "url" parses the URL and sets what it names; "password_file" is read at once. Errors: LK_EINVAL,
 * LK_ENOMEM. Since 0.1.
 */
LK_API int lk_config_set(lk_config *config, const char *name, const char *value, lk_error *error);

/*
 * Sets every option whose environment variable is set (LOCKKEEPER_URL, LOCKKEEPER_PASSWORD,
 * …), all or none. Variables that begin with LOCKKEEPER_ and name no option are left alone; in a
 * set-user-ID program all are (secure_getenv). Errors as lk_config_set(). Not while another thread
 * changes the environment. Since 0.1.
 */
LK_API int lk_config_load_environment(lk_config *config, lk_error *error);

/*
 * Writes the value of an option as text, with a NUL; secrets as "***". Returns its length
 * without the NUL, or LK_EINVAL for an unknown name; writes at most `size` bytes. Since 0.1.
 */
LK_API int lk_config_get(const lk_config *config, const char *name, char *text_out, size_t size);

/*
 * Gives log lines up to `level` (LK_LOG_…) of the clients made from it later to `callback`; the
 * default, and NULL, is silence. `context` is passed on as it is, and has to live until
 * lk_client_free() has returned for the last of these clients. Since 0.1.
 */
LK_API void lk_config_set_log(lk_config *config, int level, lk_log_callback callback,
			      void *context);

/* The number of options. Since 0.1. */
LK_API size_t lk_option_count(void);

/* Row `index` of the table of options, or NULL beyond the end. Static memory. Since 0.1. */
LK_API const lk_option_info *lk_option_at(size_t index);

LK_END_DECLS

#endif
