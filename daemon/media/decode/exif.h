/* SPDX-License-Identifier: MIT */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The orientation, 1 to 8, in the EXIF data @data [@n] of an image, with or without "Exif\0\0" before it. 1 if there is
 * none, or if the data is damaged: it only describes the image. @data may be NULL. */
unsigned exif_orientation(const uint8_t *data, size_t n);
