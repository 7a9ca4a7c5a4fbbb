package ssh

import (
	"fmt"
	"time"
)

// commandLimit is how long a command that isn't a stream may run on the host. Whoever waits for it has gone by then: it
// holds for a host that doesn't notice.
const commandLimit = 2 * time.Minute

// boundedScript is the command line that runs a script on the host with arguments. The script ends with its session,
// which is when its standard input ends, and when its time is over, be it waiting or busy. No program outlives it that
// way, as it would otherwise: sshd sends no signal when a session ends. As for line breaks and exclamation marks, see
// link.connectScript.
//
// The script reads nothing: its standard input is empty.
func boundedScript(script string, limit time.Duration, arguments ...string) string {
	seconds := max(1, int(limit/time.Second))
	// A limit of processor time ends what is busy even where there is no timeout(1), which bounds the rest. Within a
	// session of sshd, and below timeout, "kill 0" reaches all that this script started, and nothing else.
	inner := fmt.Sprintf("ulimit -t %d; exec 3<&0; ", seconds) +
		"{ while read -r x; do :; done <&3; kill -KILL 0; } >/dev/null 2>&1 & r=$!; " +
		"{ " + script + "; } 3<&- </dev/null & w=$!; exec 3<&- </dev/null; " +
		"wait $w; s=$?; exec 2>/dev/null; kill $r; exit $s"
	outer := fmt.Sprintf("t=; if command -v timeout >/dev/null 2>&1; then t=%q; fi; ",
		fmt.Sprintf("timeout -s KILL %d", seconds)) + `exec $t sh -c "$0" sh "$@"`
	line := "sh -c " + shellQuote(outer) + " " + shellQuote(inner)
	for _, argument := range arguments {
		line += " " + shellQuote(argument)
	}
	return line
}
