package ssh

import (
	"fmt"
	"time"
)

// commandLimit is how long a command that isn't a stream may run on the host. Its caller has stopped waiting by then:
// the limit is for a host that doesn't notice that.
const commandLimit = 2 * time.Minute

// boundedScript returns the command line that runs a script on the host with arguments. The script ends when its
// standard input ends, that is with its session, and when its time is over, whether it waits or is busy. So no program
// outlives the session; otherwise it would, because sshd sends no signal when a session ends. For line breaks and
// exclamation marks, see link.connectScript.
//
// The script itself has an empty standard input.
func boundedScript(script string, limit time.Duration, arguments ...string) string {
	seconds := max(1, int(limit/time.Second))
	// A limit of CPU time ends a busy script even without timeout(1), which bounds the rest. Within a session of sshd, and
	// below timeout, "kill 0" reaches all processes that this script started, and no others.
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
