/* SPDX-License-Identifier: MIT */
#include "daemon/speculate/calibration.h"

#define FULL      64    /* tokens after which the experience counts half */
#define OF_USER   4     /* tokens of its own with which a sequence believes itself as much as its user's past */
#define OF_NOBODY 4     /* the same of a user and the draft model */
#define MOST      0.99f /* no token is sure */
#define FEW       16
#define USUAL     0.7f /* of tokens of a draft model, accepted */

static const float ends[CALIBRATION_CLASSES] = {0.1f, 0.25f, 0.4f, 0.55f, 0.7f, 0.85f, 0.95f, 1};

static int class_of(float probability)
{
    int i = 0;
    while (i < CALIBRATION_CLASSES - 1 && !(probability <= ends[i])) i++;
    return i;
}

void calibration_learn(struct calibration *c, float probability, bool hit)
{
    int i = class_of(probability);
    c->tried[i] += 1;
    c->hit[i] += hit;
    if (c->tried[i] < FULL) return;
    c->tried[i] /= 2;
    c->hit[i] /= 2;
}

static float blend(float hit, float tried, float user_hit, float user_tried, float usual)
{
    float user = (user_hit + OF_NOBODY * usual) / (user_tried + OF_NOBODY);
    float chance = (hit + OF_USER * user) / (tried + OF_USER);
    return chance < MOST ? chance : MOST;
}

float calibration_chance(const struct calibration *c, const struct calibration *user, float probability)
{
    int i = class_of(probability);
    return blend(c->hit[i], c->tried[i], user->hit[i], user->tried[i], probability);
}

float calibration_mean(const struct calibration *c, const struct calibration *user)
{
    float hit = 0, tried = 0, user_hit = 0, user_tried = 0;
    for (int i = 0; i < CALIBRATION_CLASSES; i++) {
        hit += c->hit[i];
        tried += c->tried[i];
        user_hit += user->hit[i];
        user_tried += user->tried[i];
    }
    return blend(hit, tried, user_hit, user_tried, USUAL);
}

bool calibration_is_new(const struct calibration *c)
{
    float tried = 0;
    for (int i = 0; i < CALIBRATION_CLASSES; i++) tried += c->tried[i];
    return tried < FEW;
}
