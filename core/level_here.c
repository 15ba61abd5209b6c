/* Printed while building: the level of this machine. */
#include <stdio.h>

#include "level.h"

int main(void) { printf("%d", instruction_level()); return 0; }
