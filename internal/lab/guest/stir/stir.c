// Enters the kernel twenty times a second, which flushes the TLB where page tables are isolated: see GuestCmdline of the
// lab. A shell that does the same uses half as much again of the processor, in each guest of each test.

#define NANOSLEEP 35

static struct { long seconds, nanoseconds; } rest = {0, 50000000};

void _start(void) {
	for (;;) {
		long call = NANOSLEEP;
		__asm__ volatile("syscall" : "+a"(call) : "D"(&rest), "S"(0L) : "rcx", "r11", "memory");
	}
}
