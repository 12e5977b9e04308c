/* SPDX-License-Identifier: Apache-2.0 */
/* Who may use a GPU, by its files: every mode, and the driver's text about which file is whose. */
#include "daemon/identity/device_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/suite.h"

#define OWNER  1000
#define OTHER  1001
#define VIDEO  44
#define RENDER 105

/* For the owner, a member of the group and another user, exactly three bits decide. */
TEST(one_class_of_the_mode_counts)
{
        static const uint32_t in[] = {OTHER, 7, VIDEO}, out[] = {OTHER, 7, RENDER};

        for (unsigned mode = 0; mode < 01000; mode++) {
                const struct device_file file = {
                        .is_known = true, .uid = OWNER, .gid = VIDEO, .mode = 020000 | mode};

                ck_assert(device_file_opens(&file, OWNER, in, 3) == ((mode & 0600) == 0600));
                ck_assert(device_file_opens(&file, OWNER, out, 3) == ((mode & 0600) == 0600));
                ck_assert(device_file_opens(&file, OTHER, in, 3) == ((mode & 060) == 060));
                ck_assert(device_file_opens(&file, OTHER, in, 2) == ((mode & 06) == 06));
                ck_assert(device_file_opens(&file, OTHER, out, 3) == ((mode & 06) == 06));
                ck_assert(device_file_opens(&file, OTHER, NULL, 0) == ((mode & 06) == 06));
                ck_assert(device_file_opens_in_any_group(&file, OWNER) == ((mode & 0600) == 0600));
                ck_assert(device_file_opens_in_any_group(&file, OTHER) == ((mode & 066) == 066));
                ck_assert(device_file_opens_in_any_group(&file, 0));
                ck_assert(device_file_opens(&file, 0, NULL, 0));
        }
}

TEST(what_is_not_known_keeps_nobody_out)
{
        const struct device_file file = {.is_known = false};

        ck_assert(device_file_opens_in_any_group(&file, OTHER));
        ck_assert(device_file_opens(&file, OTHER, NULL, 0));
}

/* As driver 580 writes it. */
#define INFORMATION(uuid, minor)          \
        "Model: \t\t NVIDIA H200\n"       \
        "IRQ:   \t\t 41\n"                \
        "GPU UUID: \t " uuid "\n"         \
        "Video BIOS: \t 96.00.a5.00.1a\n" \
        "Bus Type: \t PCIe\n"             \
        "Bus Location: \t 0000:00:06.0\n" \
        "Device Minor: \t " minor "\n"    \
        "GPU Firmware: \t 580.159.04\n"   \
        "GPU Excluded:\t No\n"

#define UUID_TEXT "GPU-eb8b01d6-5e92-b6dd-60c0-b211079a3c95"

static const uint8_t uuid[16] = {0xeb, 0x8b, 0x01, 0xd6, 0x5e, 0x92, 0xb6, 0xdd,
                                 0x60, 0xc0, 0xb2, 0x11, 0x07, 0x9a, 0x3c, 0x95};

TEST(the_driver_says_which_file_is_whose)
{
        uint8_t other[16];
        uint32_t number = 99;

        memcpy(other, uuid, sizeof(other));
        other[15]++;
        ck_assert_int_eq(device_file_number(INFORMATION(UUID_TEXT, "7"), uuid, &number), 0);
        ck_assert_uint_eq(number, 7);
        ck_assert_int_eq(device_file_number(INFORMATION(UUID_TEXT, "12"), uuid, &number), 0);
        ck_assert_uint_eq(number, 12);
        ck_assert_int_eq(device_file_number(INFORMATION(UUID_TEXT, "7"), other, &number), -ENODEV);
        ck_assert_int_eq(device_file_number(INFORMATION("GPU-N/A", "7"), uuid, &number), -ENODEV);
        ck_assert_int_eq(device_file_number(INFORMATION(UUID_TEXT, "x"), uuid, &number), -EPROTO);
        ck_assert_int_eq(device_file_number(INFORMATION(UUID_TEXT, "7x"), uuid, &number), -EPROTO);
        ck_assert_int_eq(device_file_number("GPU UUID: " UUID_TEXT "\n", uuid, &number), -EPROTO);
        ck_assert_int_eq(device_file_number("", uuid, &number), -EPROTO);
        ck_assert_uint_eq(number, 12);
}

TESTS_MAIN("device_file")
