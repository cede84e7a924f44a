/* SPDX-License-Identifier: MIT */
/*
 * lease_probe SOCKET MODEL|@FILE WAIT_MS TIMEOUT_MS [FOLDER [follow|close]]: takes a lease through
 * libandiron and says, a line each, what came of it. FOLDER gets the bytes of each segment
 * (segment-N) and tensor (tensor-N). Then it waits for a revoke or the agent's end; with "close"
 * the callback closes the lease. The last line counts the descriptors and shared mappings that were
 * left behind.
 */
#define _GNU_SOURCE
#include <andiron.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int count_descriptors(void) {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != NULL)
    ++count;
  closedir(folder);
  return count;
}

static int count_mappings(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4096];
  int count = 0;
  while (fgets(line, sizeof(line), maps) != NULL) {
    if (strstr(line, " r--s ") != NULL) ++count;
  }
  fclose(maps);
  return count;
}

static void dump(const char* folder, const char* kind, size_t place, const void* data,
                 uint64_t bytes) {
  char path[4096];
  FILE* file;
  snprintf(path, sizeof(path), "%s/%s-%zu", folder, kind, place);
  file = fopen(path, "w");
  if (bytes > 0 && fwrite(data, 1, (size_t)bytes, file) != bytes) abort();
  fclose(file);
}

static void show(const andiron_lease* lease, const char* folder) {
  size_t i;
  printf("lease %" PRIu64 " %s %s generation %" PRIu64 " bytes %" PRIu64 "\n",
         andiron_lease_number(lease), andiron_lease_model(lease), andiron_lease_tier(lease),
         andiron_lease_generation(lease), andiron_lease_bytes(lease));
  for (i = 0; i < andiron_lease_segment_count(lease); ++i) {
    const andiron_segment* segment = andiron_lease_segment_at(lease, i);
    printf("segment %s %" PRIu64 " %" PRIu64 "\n", segment->file, segment->file_offset,
           segment->bytes);
    if ((segment->data == NULL) != (segment->bytes == 0)) abort();
    dump(folder, "segment", i, segment->data, segment->bytes);
  }
  if (andiron_lease_segment_at(lease, andiron_lease_segment_count(lease)) != NULL) abort();
}

static void* first_tensor(void* lease) { return (void*)andiron_lease_tensor_at(lease, 0); }

/* The first who ask for a tensor, all at once, see the same one. */
static void ask_at_once(andiron_lease* lease) {
  pthread_t threads[4];
  void* seen[4];
  size_t i;
  for (i = 0; i < 4; ++i) {
    if (pthread_create(&threads[i], NULL, first_tensor, lease) != 0) abort();
  }
  for (i = 0; i < 4; ++i)
    pthread_join(threads[i], &seen[i]);
  for (i = 0; i < 4; ++i) {
    if (seen[i] != andiron_lease_tensor_at(lease, 0)) abort();
  }
}

static void show_tensors(const andiron_lease* lease, const char* folder) {
  andiron_error error;
  size_t i, k;
  if (andiron_lease_read_tensors(lease, &error) != 0) {
    printf("tensors error %s %s\n", error.code, error.message);
    if (strlen(error.message) == 0 || andiron_lease_read_tensors(lease, NULL) != -1) abort();
    if (andiron_lease_tensor_count(lease) != 0) abort();
  }
  for (i = 0; i < andiron_lease_tensor_count(lease); ++i) {
    const andiron_tensor* tensor = andiron_lease_tensor_at(lease, i);
    const andiron_tensor* found;
    printf("tensor %s %s", tensor->name, tensor->dtype);
    for (k = 0; k < tensor->rank; ++k)
      printf(" %" PRIu64, tensor->shape[k]);
    printf(" of %s %" PRIu64 " %" PRIu64 "\n", tensor->file, tensor->file_offset, tensor->bytes);
    found = andiron_lease_tensor(lease, tensor->name);
    if (strcmp(found->name, tensor->name) != 0 || found > tensor) abort(); /* the first of a name */
    dump(folder, "tensor", i, tensor->data, tensor->bytes);
  }
  if (andiron_lease_tensor_at(lease, andiron_lease_tensor_count(lease)) != NULL) abort();
  if (andiron_lease_tensor(lease, "no such tensor") != NULL) abort();
}

static void on_revoke(andiron_lease* lease, const char* reason, uint32_t deadline_ms, void* user) {
  int* closes = user;
  printf("revoke %s %" PRIu32 "\n", reason, deadline_ms);
  if (*closes) {
    andiron_lease_close(lease);
    *closes = 2;
  }
}

/* Returns whether the lease was closed by the callback. */
static int follow(andiron_lease* lease, int* closes) {
  andiron_error error;
  struct pollfd wanted;
  int got = 0;
  wanted.fd = andiron_lease_poll_fd(lease);
  wanted.events = POLLIN;
  while (got >= 0 && *closes != 2) {
    if (poll(&wanted, 1, 60000) != 1) abort();
    got = andiron_lease_dispatch(lease, &error);
    if (*closes != 2 && got >= 0 && got != andiron_lease_revoked(lease)) abort();
  }
  if (got < 0) printf("over %s\n", error.code);
  return *closes == 2;
}

int main(int argc, char** argv) {
  andiron_options options = ANDIRON_OPTIONS_INIT;
  andiron_error error;
  andiron_lease* lease;
  int descriptors, mappings;
  int closes = argc > 6 && strcmp(argv[6], "close") == 0;

  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc < 5) return 2;
  options.socket = argv[1];
  if (argv[2][0] == '@') {
    options.source_fd = open(argv[2] + 1, O_RDONLY | O_CLOEXEC);
    if (options.source_fd < 0) return 2;
  } else {
    options.model = argv[2];
  }
  options.wait_ms = (uint32_t)atoi(argv[3]);
  options.timeout_ms = (uint32_t)atoi(argv[4]);
  options.on_revoke = on_revoke;
  options.user = &closes;
  descriptors = count_descriptors();
  mappings = count_mappings();
  if (andiron_lease_open(&options, &lease, &error) != 0) {
    if (lease != NULL || strlen(error.code) == 0) abort();
    printf("error %s %s\n", error.code, error.message);
  } else {
    if (argc > 5) {
      show(lease, argv[5]);
      ask_at_once(lease);
      show_tensors(lease, argv[5]);
    }
    if (argc <= 6 || !follow(lease, &closes)) andiron_lease_close(lease);
  }
  printf("left %d %d\n", count_descriptors() - descriptors, count_mappings() - mappings);
  return 0;
}
