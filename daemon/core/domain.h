#ifndef DLPACKD_CORE_DOMAIN_H
#define DLPACKD_CORE_DOMAIN_H

/*
 * Who may map memory, as a client wishes it: made whole and checked.
 *
 * Pure. One owner thread.
 */

#include "core/broker_private.h"

/*
 * Fills in what `domain` leaves to the daemon (owner and group of the sender, the usual
 * mode and backend). Return: false after answering the refusal.
 */
bool domain_complete(struct connection *connection, uint64_t request, struct pool_domain *domain);

#endif
