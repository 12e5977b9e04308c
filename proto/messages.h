/* SPDX-License-Identifier: Apache-2.0 */
/* The messages: their structs, their checks and their names, all from messages.def.
 *
 * A frame is a header of 16 bytes and one message. It travels as one SOCK_SEQPACKET datagram with its fds. Only
 * proto_decode (decode.c) turns received bytes into a frame that may be trusted. Pure. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are little-endian structs");

#define PROTO_VERSION 1
#define PROTO_MAGIC   UINT32_C(0x6d6d7067)

#define PROTO_SLOTS_MAX 65536
#define PROTO_POOLS_MAX 256
#define PROTO_ROWS_MAX  1048576
#define PROTO_BOARD_MAX (UINT64_C(1) << 30)
#define PROTO_LEASE_MAX ((UINT64_C(1) << 56) - 1)

/* LEASE properties: fixed when the block is made. A block with any of them is made for its LEASE and ends with it. Fabric
 * is not served. */
#define PROTO_PROPERTY_SHAREABLE  UINT32_C(1)
#define PROTO_PROPERTY_RDMA       UINT32_C(2)
#define PROTO_PROPERTY_FABRIC     UINT32_C(4)
#define PROTO_PROPERTY_REGISTERED UINT32_C(8)
#define PROTO_PROPERTIES          UINT32_C(15)

/* PROTO_POOL_VMM: a pinned pool's blocks are host memory that the driver has made and exported, imported as device
 * blocks are; without it they are memfds. A client that does not know a bit cannot map the pool's blocks, and does
 * not use the pool. */
#define PROTO_POOL_VMM        UINT32_C(1)
#define PROTO_POOL_LEGACY     UINT32_C(2) /* of a device: a block's fd holds a CUDA IPC handle */
#define PROTO_POOL_PROPERTIES UINT32_C(3)

/* The sealed memfd of a legacy block. */
#define PROTO_LEGACY_HANDLE_BYTES 64

/* Features: each is a bit of HELLO, and in force if WELCOME has it, too. */
#define PROTO_FEATURE_REFUSED    UINT64_C(1)   /* a LEASE is answered by REFUSED, not by ERROR */
#define PROTO_FEATURE_LEGACY     UINT64_C(2)   /* pools may be PROTO_POOL_LEGACY */
#define PROTO_FEATURE_LOSS       UINT64_C(4)   /* NOTICE tells of devices that are lost, and back */
#define PROTO_FEATURE_GROUPS     UINT64_C(8)   /* LEASEs may be served together: PROTO_LEASE_MORE */
#define PROTO_FEATURE_PARTS      UINT64_C(16)  /* PROTO_LEASE_ONLY_CACHED, PROTO_RETURN_UNUSED */
#define PROTO_FEATURE_PRESSURE   UINT64_C(32)  /* NOTICE tells that others lack memory */
#define PROTO_FEATURE_REPORTS    UINT64_C(64)  /* FAILED tells of the library's own refusals */
#define PROTO_FEATURE_REGISTERED UINT64_C(128) /* LEASE's properties may be REGISTERED and RDMA */
#define PROTO_FEATURE_FACTS      UINT64_C(256) /* REFUSED_FACTS instead of REFUSED */
#define PROTO_FEATURE_NAMES      UINT64_C(512) /* NAMED has the program's name in UTF-8 */
#define PROTO_FEATURE_BOARD      UINT64_C(1024) /* the client seals its board */
#define PROTO_FEATURES           UINT64_C(2047)

/* Why a LEASE was refused. */
enum proto_refused {
        PROTO_REFUSED_OTHERWISE,     /* not a lack of memory */
        PROTO_REFUSED_QUOTA,         /* a limit of the client or its tenant */
        PROTO_REFUSED_POOL_FULL,     /* others hold it */
        PROTO_REFUSED_DEVICE_FULL,   /* the driver has none, though the pool would allow it */
        PROTO_REFUSED_LINGERING,     /* revoked memory that is not unmapped yet would be enough */
        PROTO_REFUSED_IDLE,          /* leased memory that is not used would be enough */
        PROTO_REFUSED_FRAGMENTATION, /* free memory inside blocks would be enough */
        PROTO_REFUSED_N,
};

/* What the text of a refusal says: see REFUSED_FACTS. */
enum proto_refused_what {
        PROTO_SAYS_REASON, /* or the pool's figures alone, where that is OTHERWISE */
        PROTO_SAYS_UNKNOWN,
        PROTO_SAYS_UNCACHED,
        PROTO_SAYS_SHUTDOWN,
        PROTO_SAYS_NO_POOL,
        PROTO_SAYS_BLOCKS,
        PROTO_SAYS_STALLED,
        PROTO_SAYS_DEVICE_ERROR,
        PROTO_SAYS_DEVICE_LOST,
        PROTO_SAYS_DEADLOCK,
        PROTO_SAYS_LATE,
};

#define PROTO_LEASE_KNOWN       UINT32_C(1)  /* flag: KNOWN is acceptable */
#define PROTO_LEASE_ONLY_KNOWN  UINT32_C(2)  /* flag: nothing else is acceptable */
#define PROTO_LEASE_KEEPS       UINT32_C(4)  /* flag: the client does not unmap it on request */
#define PROTO_LEASE_MORE        UINT32_C(8)  /* flag: served with the next one, or neither is */
#define PROTO_LEASE_ONLY_CACHED UINT32_C(16) /* flag: no block is made for it */

/* The most that LEASE's wait_ms counts as. A client that wants to wait longer asks again, behind the others. */
#define PROTO_WAIT_MS_MAX UINT32_C(600000)

static inline uint32_t proto_wait_ms(uint32_t wait_ms)
{
        return wait_ms < PROTO_WAIT_MS_MAX ? wait_ms : PROTO_WAIT_MS_MAX;
}

#define PROTO_RETURN_UNMAPPED UINT32_C(1)
#define PROTO_RETURN_UNUSED   UINT32_C(2) /* flag: a block that was made for the lease is not kept */

#define PROTO_SHARE_GRANT       UINT32_C(1)
#define PROTO_SHARE_KEEP_MS_MAX UINT32_C(60000)

#define PROTO_SCOPE_TENANT 1
#define PROTO_SCOPE_NODE   2
#define PROTO_ALL_POOLS    UINT32_MAX

#define PROTO_NOTICE_SHUTTING_DOWN 1
#define PROTO_NOTICE_UNMAP         2
#define PROTO_NOTICE_MARK          3
#define PROTO_NOTICE_LOST          4
#define PROTO_NOTICE_BACK          5
#define PROTO_NOTICE_PRESSURE      6

/* The scopes of limits. */
#define PROTO_LIMIT_OF_CLIENT 1
#define PROTO_LIMIT_OF_TENANT 2
#define PROTO_LIMIT_OF_POOL   3
#define PROTO_LIMIT_OF_EACH   UINT32_MAX /* as holder: each client or tenant */

/* The kinds of limits. */
#define PROTO_LIMIT_DEVICE_BYTES   1 /* charged */
#define PROTO_LIMIT_PINNED_BYTES   2
#define PROTO_LIMIT_LEASES         3
#define PROTO_LIMIT_RESERVED_BYTES 4 /* of a pool, and only of a pool */
#define PROTO_LIMIT_MIN_BYTES      5 /* of a pool, too: what each tenant keeps there at least */
#define PROTO_LIMIT_CACHED_BYTES   6 /* of a pool: unused memory that it keeps */
#define PROTO_LIMIT_FREE_BYTES     7 /* of a device's pool: what stays free on the device */
#define PROTO_LIMIT_RETURN_SECONDS 8 /* of a pool: how long other unused memory stays */

#define PROTO_LIMIT_CHECK       UINT32_C(1) /* flag: SET_LIMITS changes nothing */
#define PROTO_LIMIT_MORE        UINT32_C(2) /* flag: takes effect with the next ones */
#define PROTO_LIMIT_CHANGES_MAX 32          /* changes that are made together */

#define PROTO_LIMIT_NONE    UINT64_MAX
#define PROTO_LIMIT_INHERIT (UINT64_MAX - 1)

enum proto_sender { FROM_CLIENT, FROM_DAEMON };

enum message_kind {
#define MESSAGE(NAME, name, code, sender, fds_min, fds_max, text) MESSAGE_##NAME = (code),
#define U32(field, rule, text)
#define U64(field, rule, text)
#define TEXT(field, n_bytes, text)
#define UTF8(field, n_bytes, text)
#define END_MESSAGE(NAME, name, n_bytes)
#include "proto/messages.def"
#include "proto/messages_undef.h"
};

#define MESSAGE(NAME, name, code, sender, fds_min, fds_max, text) struct message_##name {
#define U32(field, rule, text)                                    uint32_t field;
#define U64(field, rule, text)                                    uint64_t field;
#define TEXT(field, n_bytes, text)                                char field[n_bytes];
#define UTF8(field, n_bytes, text)                                char field[n_bytes];
#define END_MESSAGE(NAME, name, n_bytes) \
        }                                \
        ;                                \
        static_assert(sizeof(struct message_##name) == (n_bytes), "wire sizes are frozen");
#include "proto/messages.def"
#include "proto/messages_undef.h"

/* The wire image: its first n_bytes travel. */
struct frame {
        uint32_t n_bytes; /* header and message */
        uint16_t kind;
        uint16_t n_fds;
        uint32_t serial; /* a reply bears its request's; requests begin at 1 */
        uint32_t flags;  /* none yet: 0 */
        union {
#define MESSAGE(NAME, name, code, sender, fds_min, fds_max, text) struct message_##name name;
#define U32(field, rule, text)
#define U64(field, rule, text)
#define TEXT(field, n_bytes, text)
#define UTF8(field, n_bytes, text)
#define END_MESSAGE(NAME, name, n_bytes)
#include "proto/messages.def"
#include "proto/messages_undef.h"
        };
};

#define FRAME_HEADER_BYTES offsetof(struct frame, hello)
static_assert(FRAME_HEADER_BYTES == 16, "the header's size is frozen");

#define FRAME_NULL ((struct frame){.n_bytes = 0})

/* A row of POOLS_REPLY and of WELCOME's second fd. */
struct pool_row {
        uint32_t id;
        uint32_t kind;       /* enum gpumem_kind */
        uint32_t place;      /* device: the daemon's index, for display; pinned: NUMA node */
        uint32_t properties; /* PROTO_POOL_* */
        uint8_t uuid[16];    /* device: the GPU's; pinned: zero */
        char name[64];
        uint64_t n_capacity_bytes; /* of the device, or of the node's memory */
        uint64_t n_max_bytes;      /* most that the pool may reserve */
        uint64_t n_granularity_bytes;
};
static_assert(sizeof(struct pool_row) == 120, "wire sizes are frozen");

/* A device's state in STATS_REPLY. */
#define PROTO_FIGURE_UNKNOWN      UINT64_MAX
#define PROTO_DEVICE_UNKNOWN      0
#define PROTO_DEVICE_WELL         1
#define PROTO_DEVICE_WORN         2
#define PROTO_DEVICE_NEEDS_RESET  3
#define PROTO_DEVICE_NEEDS_REBOOT 4
#define PROTO_DEVICE_LOST         5

/* The state of the device's driver. */
#define PROTO_DRIVER_ANSWERS 0
#define PROTO_DRIVER_STALLED 1
#define PROTO_DRIVER_LOST    2

/* A row of STATS_REPLY. */
struct stats_row {
        uint32_t pool;
        uint32_t kind;
#define STAT(field, unit, text) uint64_t field;
#include "proto/stats.def"
#undef STAT
};

/* A row of LIMITS_REPLY: a limit in force, or a tenant's exemption from the one for each. */
struct limit_row {
        uint32_t scope;  /* PROTO_LIMIT_OF_* */
        uint32_t kind;   /* PROTO_LIMIT_*_BYTES or PROTO_LIMIT_LEASES */
        uint32_t holder; /* client: pid; tenant: uid; pool: id; PROTO_LIMIT_OF_EACH: a default */
        uint32_t reserved;
        uint64_t used; /* by the holder, charged; of a pool: reserved; of a default: 0 */
        uint64_t max;  /* PROTO_LIMIT_NONE: an exemption */
        char name[64]; /* client: its program; pool: its name; else empty */
};
static_assert(sizeof(struct limit_row) == 96, "wire sizes are frozen");

/* Why bytes are not a valid frame: static text. */
struct proto_reason {
        const char *what;
        const char *field; /* NULL: it is about the whole frame */
};

/* Checks n_bytes that came with n_fds fds from `sender`. Never reads beyond n_bytes. GPUMEM_E_BAD_FRAME: see reason;
 * GPUMEM_E_UNKNOWN_KIND: a valid header whose kind is not in the list. Both set ret_frame's header, as far as the
 * bytes reach, so that an answer can be addressed. */
int proto_decode(const void *bytes, size_t n_bytes, unsigned n_fds, enum proto_sender sender,
                 struct frame *ret_frame, struct proto_reason *ret_reason);

/* Fills in a frame's header for its kind; the caller has set the message's fields. */
void proto_seal(struct frame *frame, enum message_kind kind, uint32_t serial, unsigned n_fds);

/* "LEASE"; "unknown" for a kind that is not in the list. */
const char *proto_name(unsigned kind);

/* Copies text into a TEXT field: cut to fit, with '?' for what is not printable ASCII, and zero to the end. */
void proto_put_text(char *field, size_t n_field_bytes, const char *text);

/* The same for a UTF8 field, and for names in rows: printable UTF-8 stays. */
void proto_put_name(char *field, size_t n_field_bytes, const char *name);

/* The sentence for a GPUMEM_E_*; NULL: the code is not in gpumem-errors.def. */
const char *proto_error_text(int code);
