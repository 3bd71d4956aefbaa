// SPDX-License-Identifier: Apache-2.0
#include <uroce/control.h>

int lose_an_ack(void);
int lose_an_ack(void) { return uroce_lose(0, 1, "op:ack"); }
