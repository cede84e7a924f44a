/* SPDX-License-Identifier: MIT */
/*
 * tensor_sum MODEL [TENSOR]: prints the tensors of a model that an agent keeps in pinned RAM, or
 * the sum of one of type F32, straight from the agent's own copy.
 *
 *     cc tensor_sum.c $(pkg-config --cflags --libs andiron) -o tensor_sum
 */
#include <andiron.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_tensor(const andiron_tensor* tensor) {
  size_t i;
  printf("%s %s [", tensor->name, tensor->dtype);
  for (i = 0; i < tensor->rank; ++i) {
    printf(i == 0 ? "%" PRIu64 : ", %" PRIu64, tensor->shape[i]);
  }
  printf("] %" PRIu64 " bytes at %" PRIu64 " of %s\n", tensor->bytes, tensor->file_offset,
         tensor->file);
}

static int print_sum(const andiron_lease* lease, const char* name) {
  const andiron_tensor* tensor = andiron_lease_tensor(lease, name);
  double sum = 0;
  uint64_t i;
  if (tensor == NULL) {
    fprintf(stderr, "no tensor '%s'\n", name);
    return 1;
  }
  if (strcmp(tensor->dtype, "F32") != 0) {
    fprintf(stderr, "'%s' is of type %s, and this knows only F32\n", name, tensor->dtype);
    return 1;
  }
  for (i = 0; i + sizeof(float) <= tensor->bytes; i += sizeof(float)) {
    float value; /* copied out, since a file need not align its tensors */
    memcpy(&value, (const char*)tensor->data + i, sizeof(value));
    sum += value;
  }
  printf("%.6f\n", sum);
  return 0;
}

int main(int argc, char** argv) {
  andiron_options options = ANDIRON_OPTIONS_INIT;
  andiron_error error;
  andiron_lease* lease;
  size_t i;
  int status = 0;

  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: tensor_sum MODEL [TENSOR]\n");
    return 2;
  }
  options.model = argv[1];
  options.wait_ms = 60000; /* the agent may have to load it */
  if (andiron_lease_open(&options, &lease, &error) != 0) {
    fprintf(stderr, "%s: %s\n", error.code, error.message);
    return 1;
  }
  if (argc == 3) {
    status = print_sum(lease, argv[2]);
  } else {
    for (i = 0; i < andiron_lease_tensor_count(lease); ++i) {
      print_tensor(andiron_lease_tensor_at(lease, i));
    }
  }
  andiron_lease_close(lease);
  return status;
}
