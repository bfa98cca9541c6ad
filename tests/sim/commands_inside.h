/* What the files of commands share: arguments, and the functions that stand in their table. */
#ifndef SIM_COMMANDS_INSIDE_H
#define SIM_COMMANDS_INSIDE_H

#include "commands.h"

#define SIM_WRONG_TYPE "WRONGTYPE Operation against a key holding the wrong kind of value"
#define SIM_NOT_INTEGER "ERR value is not an integer or out of range"
#define SIM_NOT_FLOAT "ERR value is not a valid float"
#define SIM_SYNTAX "ERR syntax error"

/* As Redis reads them: no space, no sign but a minus, no zero in front. */
bool sim_read_integer(struct sim_word word, int64_t *number_out);
bool sim_read_score(struct sim_word word, double *score_out);

/* The same of an argument, with the error said when it is none. */
bool sim_integer_at(const struct sim_asked *asked, size_t at, int64_t *number_out);

/*
 * The key of word 1, or NULL where there is none. False: it is of another type, and that is said.
 */
bool sim_key_of(const struct sim_asked *asked, enum sim_type type, struct sim_key **key_out);

/* The same, and it is made where there is none. NULL: another type, which is said. */
struct sim_key *sim_key_for(const struct sim_asked *asked, enum sim_type type);

void sim_do_hset(const struct sim_asked *asked);
void sim_do_hget(const struct sim_asked *asked);
void sim_do_hdel(const struct sim_asked *asked);
void sim_do_hexists(const struct sim_asked *asked);
void sim_do_hlen(const struct sim_asked *asked);
void sim_do_hgetall(const struct sim_asked *asked);
void sim_do_hscan(const struct sim_asked *asked);
void sim_do_hrandfield(const struct sim_asked *asked);
void sim_do_push(const struct sim_asked *asked);
void sim_do_lpop(const struct sim_asked *asked);
void sim_do_llen(const struct sim_asked *asked);
void sim_do_lindex(const struct sim_asked *asked);
void sim_do_lrange(const struct sim_asked *asked);
void sim_do_lrem(const struct sim_asked *asked);
void sim_do_zadd(const struct sim_asked *asked);
void sim_do_zrem(const struct sim_asked *asked);
void sim_do_zcard(const struct sim_asked *asked);
void sim_do_zscore(const struct sim_asked *asked);
void sim_do_zrange(const struct sim_asked *asked);
void sim_do_zcount(const struct sim_asked *asked);
void sim_do_zrangebyscore(const struct sim_asked *asked);
void sim_do_zremrangebyscore(const struct sim_asked *asked);

#endif
