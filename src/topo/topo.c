/* SPDX-License-Identifier: MIT */
#include "topo/topo.h"

#include <string.h>

#include "base/fail.h"
#include "conf/config.h"

int lk__topo_new(struct lk__topo **topo_out, const struct lk_config *config,
		 const struct lk__node_events *events, void *context, lk_error *error)
{
	if (config->deployment == LK__REPLICAS)
		return lk__topo_replicas_new(topo_out, config, events, context, error);
	if (config->deployment == LK__SENTINEL)
		return lk__topo_sentinel_new(topo_out, config, events, context, error);
	if (config->deployment == LK__CLUSTER)
		return lk__topo_cluster_new(topo_out, config, events, context, error);
	switch (config->scheme) {
	case LK__SCHEME_TCP:
	case LK__SCHEME_TLS:
	case LK__SCHEME_UNIX:
		return lk__topo_single_new(topo_out, config, events, context, error);
	case LK__SCHEME_NONE:
		break;
	}
	return lk__fail(error, LK_EINVAL,
			"no server is named: set the option url or LOCKKEEPER_URL");
}

/* ---- slots ---- */

/* CRC16 with the polynomial 0x1021 (XMODEM), four bits at a time. */
static uint16_t crc16(const unsigned char *bytes, size_t size)
{
	static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
					   0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
					   0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
	uint16_t crc = 0;
	for (size_t i = 0; i < size; i++) {
		crc = (uint16_t)(crc << 4) ^ table[(crc >> 12) ^ (bytes[i] >> 4)];
		crc = (uint16_t)(crc << 4) ^ table[(crc >> 12) ^ (bytes[i] & 15)];
	}
	return crc;
}

uint16_t lk__slot_of(const void *key, size_t size)
{
	const char *begin = key, *end = begin + size;
	const char *open = size ? memchr(begin, '{', size) : NULL;
	const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
	if (close && close > open + 1) {
		begin = open + 1;
		end = close;
	}
	return crc16((const unsigned char *)begin, (size_t)(end - begin)) % LK__SLOTS;
}
