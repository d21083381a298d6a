/* profile_write: writes permission profiles and additional permissions as JSON, in the stored form that proto/profile.h reads.
 *
 * Members stand in a fixed order and those with a default value are left out, so that equal profiles give equal texts. A path that
 * is not UTF-8 is written as a file: URI.
 */
#pragma once

#include "policy/overlay.h"
#include "policy/profile.h"
#include "wire/jsonw.h"

void profile_write(struct jsonw *w, const struct profile *p);
void profile_write_entry(struct jsonw *w, const struct profile_entry *e);
void profile_write_path(struct jsonw *w, struct slice path);
/* Writes both members of an overlay, as null where the overlay does not mention them. */
void profile_write_overlay(struct jsonw *w, const struct overlay *o);
