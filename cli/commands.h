/* SPDX-License-Identifier: MIT */
/* The commands: each is one row of the table in main.c, and one file (or one of a family). */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "options.h"

extern const struct option_row run_options[];
extern const struct option_row lock_options[];
extern const struct option_row extend_options[];
extern const struct option_row unlock_options[];
extern const struct option_row json_options[], ls_options[];
extern const struct option_row ask_options[];
extern const struct option_row break_options[];
extern const struct option_row wait_options[], watch_options[];
extern const struct option_row sem_options[];
extern const struct option_row latch_options[], barrier_options[];
extern const struct option_row server_options[];
extern const struct option_row top_options[];
extern const struct option_row metrics_options[];
extern const struct option_row doctor_options[];
extern const struct option_row elect_options[], leader_options[];

int cmd_run(const struct command *command, int argc, char **argv);
int cmd_lock(const struct command *command, int argc, char **argv);
int cmd_unlock(const struct command *command, int argc, char **argv);
int cmd_extend(const struct command *command, int argc, char **argv);
int cmd_fence(const struct command *command, int argc, char **argv);
int cmd_ls(const struct command *command, int argc, char **argv);
int cmd_show(const struct command *command, int argc, char **argv);
int cmd_ask(const struct command *command, int argc, char **argv);
int cmd_break(const struct command *command, int argc, char **argv);
int cmd_wait(const struct command *command, int argc, char **argv);
int cmd_watch(const struct command *command, int argc, char **argv);
int cmd_latch(const struct command *command, int argc, char **argv);
int cmd_barrier(const struct command *command, int argc, char **argv);
int cmd_sem(const struct command *command, int argc, char **argv);
int cmd_top(const struct command *command, int argc, char **argv);
int cmd_metrics(const struct command *command, int argc, char **argv);
int cmd_elect(const struct command *command, int argc, char **argv);
int cmd_leader(const struct command *command, int argc, char **argv);
int cmd_doctor(const struct command *command, int argc, char **argv);
int cmd_server(const struct command *command, int argc, char **argv);
int cmd_completion(const struct command *command, int argc, char **argv);

#endif
