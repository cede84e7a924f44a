/* SPDX-License-Identifier: MIT */
/**
 * libandiron: the use of weights that an Andiron agent keeps in pinned RAM, without copying them.
 *
 * A lease is a connection to the agent. While it is there, the agent keeps the model's bytes; they
 * are mapped read-only and shared, so that a model of any size is there in milliseconds and costs
 * no memory of one's own. Closing the lease unmaps them and lets the agent know.
 *
 *     andiron_options options = ANDIRON_OPTIONS_INIT;
 *     andiron_error error;
 *     andiron_lease *lease;
 *     options.model = "assistant";
 *     options.wait_ms = 30000;
 *     if (andiron_lease_open(&options, &lease, &error) != 0) {
 *       fprintf(stderr, "%s: %s\n", error.code, error.message);
 *     }
 *
 * Strings are UTF-8 and end with a NUL; sizes and offsets are bytes. What a lease gives out
 * (strings, structures, data) belongs to the lease and is valid until it is closed. Structures that
 * the library gives out may get further members at their ends in later versions: use them where
 * they are, and do not copy them as an array. No function changes a signal's disposition or starts
 * a thread; every wait has a deadline.
 *
 * Threads: any number of leases may be opened and used at the same time. Functions that take a
 * const andiron_lease may be called for one lease by several threads. andiron_lease_dispatch() is
 * for one thread at a time, and nobody may use a lease while or after it is closed.
 *
 * Processes: the descriptors are closed by exec(). A child made by fork() shares the lease with its
 * parent: it lasts until both have closed it or ended, and only one of them should dispatch.
 *
 * Link with `pkg-config --cflags --libs andiron`.
 */
#ifndef ANDIRON_H
#define ANDIRON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ANDIRON_API __attribute__((visibility("default")))
#else
#define ANDIRON_API
#endif

/**
 * Why a call failed. `code` is a stable name: those of the agent's API (model_not_found,
 * permission_denied, no_budget, no_headroom, stale, timeout, too_many_requests, ...), and from the
 * library itself
 *   unavailable   there is no agent, it hung up, or it speaks another protocol
 *   timeout       it did not answer in time
 *   bad_format    it sent what makes no sense
 *   bad_request   the options make no sense
 *   io_error      the system refused something: mapping, memory, descriptors
 * `message` is for people.
 */
typedef struct andiron_error {
  char code[48];
  char message[464];
} andiron_error;

typedef struct andiron_lease andiron_lease;

/**
 * The agent asks for the lease's end: `reason` is a stable name, as in the agent's events; it would
 * like to have the bytes back within `deadline_ms`. Who can goes on without and calls
 * andiron_lease_close(), also from here; who cannot keeps valid bytes, which count as used until
 * then.
 */
typedef void (*andiron_revoke_fn)(andiron_lease* lease, const char* reason, uint32_t deadline_ms,
                                  void* user);

/** What to lease and how. Start with ANDIRON_OPTIONS_INIT. Nothing of it is used after the call. */
typedef struct andiron_options {
  size_t size;       /* sizeof(andiron_options): tells the library which members there are */
  const char* model; /* the model's name as `andironctl status` shows it, or NULL */
  int source_fd;     /* instead: a file of a model, open for reading; else -1. The caller keeps it,
                        and its access to the file is what counts. The lease is on this file alone */
  uint32_t
      wait_ms; /* how long the agent may load, where the model is not there yet; 0: not at all */
  uint32_t timeout_ms;         /* how long the agent may take to answer apart from that; 0: 5000 */
  const char* tier;            /* NULL: "pinned-ram", which is the only one in this version */
  const char* socket;          /* NULL: $ANDIRON_LEASE_SOCKET, else /run/andiron/lease.sock */
  andiron_revoke_fn on_revoke; /* NULL: nobody; see andiron_lease_dispatch() */
  void* user;                  /* what on_revoke gets */
} andiron_options;

#define ANDIRON_OPTIONS_INIT \
  { sizeof(andiron_options), NULL, -1, 0, 0, NULL, NULL, NULL, NULL }

/** A run of a file's bytes, mapped. */
typedef struct andiron_segment {
  const char* file;     /* its name within the model */
  uint64_t file_offset; /* where in the file it begins */
  uint64_t bytes;
  const void* data; /* read-only, writing is SIGSEGV; NULL where there are no bytes */
} andiron_segment;

/** A tensor, as the file's header has it. */
typedef struct andiron_tensor {
  const char* name;
  const char* dtype;     /* the format's own word: "F16", "BF16", "Q4_K", ... */
  const uint64_t* shape; /* in the format's own order: GGUF has the fastest dimension first */
  size_t rank;           /* how many dimensions; 0 is a scalar */
  const char* file;      /* the file that it lies in */
  uint64_t file_offset;  /* where in the file it begins */
  uint64_t bytes;
  const void* data; /* read-only; aligned as in the file, which may be not at all. NULL: no bytes */
} andiron_tensor;

/** The library's version, such as "0.1.0". Never NULL. */
ANDIRON_API const char* andiron_version(void);

/**
 * Asks the agent for a lease and maps what it grants. Gives 0, and the lease in `*lease`; or -1,
 * NULL in `*lease`, and why in `*error`, which may be NULL. Blocks for wait_ms + timeout_ms at
 * most.
 */
ANDIRON_API int andiron_lease_open(const andiron_options* options, andiron_lease** lease,
                                   andiron_error* error);

/** Unmaps all and ends the lease. NULL is nothing. The data must not be touched afterwards. */
ANDIRON_API void andiron_lease_close(andiron_lease* lease);

ANDIRON_API const char* andiron_lease_model(const andiron_lease* lease);
ANDIRON_API const char* andiron_lease_tier(const andiron_lease* lease);
/** The agent's number for the lease: `andironctl events` has it. */
ANDIRON_API uint64_t andiron_lease_number(const andiron_lease* lease);
/** Counts up with each change of the model's files: other bytes have another generation. */
ANDIRON_API uint64_t andiron_lease_generation(const andiron_lease* lease);
/** Of all segments together. */
ANDIRON_API uint64_t andiron_lease_bytes(const andiron_lease* lease);

ANDIRON_API size_t andiron_lease_segment_count(const andiron_lease* lease);
/** NULL from the count on. */
ANDIRON_API const andiron_segment* andiron_lease_segment_at(const andiron_lease* lease,
                                                            size_t place);

/**
 * Tensors are read from the lease's index, and checked, when somebody first asks for one or for
 * their number, so that attaching takes as long for few as for many; that first call takes a
 * millisecond or two for each thousand of them, and other threads wait for it. Where they turn out
 * to make no sense, or there is no memory for them, the lease has none from then on: a count of 0,
 * and NULL for each; its segments are as good as before. This reads them now, and tells the two
 * apart: it gives 0 when they are there, or -1 and why in `*error`, which may be NULL; again, the
 * same.
 */
ANDIRON_API int andiron_lease_read_tensors(const andiron_lease* lease, andiron_error* error);
/** 0 also where they cannot be read. */
ANDIRON_API size_t andiron_lease_tensor_count(const andiron_lease* lease);
/** In the order of the files and within them; NULL from the count on, or where they cannot be read.
 */
ANDIRON_API const andiron_tensor* andiron_lease_tensor_at(const andiron_lease* lease, size_t place);
/** By its name, at once for any number of tensors; the first, where two files have one of that
   name. NULL where there is none, or they cannot be read. */
ANDIRON_API const andiron_tensor* andiron_lease_tensor(const andiron_lease* lease,
                                                       const char* name);

/** To poll(2) for POLLIN: then there is something to dispatch. It stays the lease's own: do not
   read, write or close it. */
ANDIRON_API int andiron_lease_poll_fd(const andiron_lease* lease);

/**
 * Takes what the agent sent, without blocking. Gives 1 after a revoke, for which on_revoke was
 * called as the last thing (it may close the lease); 0 where there was nothing; or -1 and `*error`,
 * which may be NULL: with unavailable the agent has gone, so that the lease has ended and poll_fd
 * is of no use any longer. The data stays valid until andiron_lease_close() all the same.
 */
ANDIRON_API int andiron_lease_dispatch(andiron_lease* lease, andiron_error* error);

/** 1 once a revoke was dispatched, else 0. */
ANDIRON_API int andiron_lease_revoked(const andiron_lease* lease);

#ifdef __cplusplus
}
#endif

#endif /* ANDIRON_H */
