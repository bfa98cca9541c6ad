/* Requests and options in one expression, for tests. */
#ifndef HARNESS_REQUEST_H
#define HARNESS_REQUEST_H

#include <lockkeeper.h>

/* lk_queue_start(queue, request_of(ACQUIRE, .lock = lock, .wait_ms = -1), &id, &error) */
#define request_of(op, ...)                                                                        \
	(&(lk_request){.struct_size = sizeof(lk_request), .operation = LK_OP_##op, __VA_ARGS__})

#define extend_by(name)                                                                            \
	(&(lk_extend_options){.struct_size = sizeof(lk_extend_options), .owner = (name)})

/* What is held under a wire field. */
#define release_of(wire_field)                                                                     \
	(&(lk_release_options){.struct_size = sizeof(lk_release_options), .field = (wire_field)})
#define extend_of(wire_field)                                                                      \
	(&(lk_extend_options){.struct_size = sizeof(lk_extend_options), .field = (wire_field)})

#define if_exists                                                                                  \
	(&(lk_semaphore_release_options){.struct_size = sizeof(lk_semaphore_release_options),      \
					 .if_exists = 1})

#endif
