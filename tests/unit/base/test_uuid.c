/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/uuid.h"
#include "tests/suite.h"

static const uint8_t uuid[UUID_BYTES] = {0xeb, 0x8b, 0x01, 0xd6, 0x5e, 0x92, 0xb6, 0xdd,
                                         0x60, 0xc0, 0xb2, 0x11, 0x07, 0x9a, 0x3c, 0x95};

TEST(a_gpu_and_an_instance_differ_by_their_beginning)
{
        char text[UUID_TEXT_MAX];

        uuid_print(UUID_OF_GPU, uuid, text);
        ck_assert_str_eq(text, "GPU-eb8b01d6-5e92-b6dd-60c0-b211079a3c95");
        uuid_print(UUID_OF_MIG, uuid, text);
        ck_assert_str_eq(text, "MIG-eb8b01d6-5e92-b6dd-60c0-b211079a3c95");
}

TEST(cudas_name_tells_which_it_is)
{
        ck_assert_int_eq(uuid_kind_of("NVIDIA H200"), UUID_OF_GPU);
        ck_assert_int_eq(uuid_kind_of("NVIDIA MIGHTY 2"), UUID_OF_GPU);
        ck_assert_int_eq(uuid_kind_of(""), UUID_OF_GPU);
        ck_assert_int_eq(uuid_kind_of("NVIDIA H200 MIG 1g.18gb"), UUID_OF_MIG);
}

TEST(both_are_read)
{
        uint8_t read[UUID_BYTES] = {0};

        ck_assert(uuid_parse("GPU-eb8b01d6-5e92-b6dd-60c0-b211079a3c95", read));
        ck_assert_mem_eq(read, uuid, sizeof(read));
        memset(read, 0, sizeof(read));
        ck_assert(uuid_parse("MIG-EB8B01D6-5E92-b6dd-60c0-b211079a3c95", read));
        ck_assert_mem_eq(read, uuid, sizeof(read));
}

static const char *const wrong[] = {
        "",
        "GPU-",
        "eb8b01d6-5e92-b6dd-60c0-b211079a3c95",
        "TPU-eb8b01d6-5e92-b6dd-60c0-b211079a3c95",
        "GPU-eb8b01d6-5e92-b6dd-60c0-b211079a3c9",
        "GPU-eb8b01d6-5e92-b6dd-60c0-b211079a3c9g",
        "GPU-eb8b01d6-5e92-b6dd-60c0-b211079a3c955",
        "GPU-eb8b01d65e92-b6dd-60c0-b211079a3c95",
        "MIG-GPU-eb8b01d6-5e92-b6dd-60c0-b211079a3c95/1/0",
};

TEST(others_are_not, .to = sizeof(wrong) / sizeof(wrong[0]))
{
        uint8_t read[UUID_BYTES] = {7};

        ck_assert(!uuid_parse(wrong[_i], read));
        ck_assert_uint_eq(read[0], 7);
}

TESTS_MAIN("uuid")
