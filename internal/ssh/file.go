package ssh

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
)

// ReadEnd returns the last n bytes of the file at an absolute path on the host, less where the file is shorter. It is
// read by a program there (tail), with the rights of the user who logs in.
//
// Errors are those of [Client.DialUnix] where the host can't be reached, and of kind ErrConfig for a path that isn't
// absolute; any other means that the host runs no such program for us, or that the program could not read the file.
func (c *Client) ReadEnd(ctx context.Context, path string, n int) ([]byte, error) {
	if err := checkFilePath(path); err != nil {
		return nil, &Error{Host: c.cfg.Host, Op: "reading a file", Kind: ErrConfig, Err: err}
	}
	line := boundedScript(`tail -c "$1" -- "$2"`, commandLimit, strconv.Itoa(n), path)
	text, err := throughLink(ctx, c, "reading "+path, func(l *link) ([]byte, error) {
		return l.commandOutput(ctx, line, n)
	})
	if err != nil {
		return nil, err
	}
	return text[max(0, len(text)-n):], nil
}

// checkFilePath refuses a path that means something else on the host than for whoever wrote it.
func checkFilePath(path string) error {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\x00\n\r") {
		return configError("file path %q: must be absolute, on one line", path)
	}
	return nil
}

// What the script says of a file: each on a line of its own.
const (
	fileThere   = "virtfleet-file-there"
	fileAbsent  = "virtfleet-file-absent"
	fileUnknown = "virtfleet-file-unknown"
)

// absentScript says for each of its arguments, which are absolute, whether there is such a file. It is absent where the
// nearest directory above it that can be seen may be searched. As for line breaks and exclamation marks, see
// link.connectScript.
const absentScript = `for p; do s=` + fileThere + `; test -e "$p" || { s=` + fileUnknown + `; d=$p; ` +
	`while test -n "$d"; do test -L "$d" && break; case $d in */*) d=${d%/*};; *) break;; esac; ` +
	`test -e "${d:-/}" || continue; ` +
	`test -d "${d:-/}" && { test -x "${d:-/}" || break; }; s=` + fileAbsent + `; break; done; }; echo; echo $s; done`

// maxArguments is how long the arguments of one command may be altogether. Linux takes no single argument of 128 KiB,
// and to the login shell the whole command is one.
const maxArguments = 64 << 10

// Absent returns which of the absolute paths lead to nothing on the host, as the user who logs in sees it: what that
// user may not see, or is reached through a symbolic link that leads to nothing, isn't among them. A program there (sh)
// looks, and changes nothing.
//
// Errors are those of [Client.DialUnix] where the host can't be reached, and of kind ErrConfig for a path that isn't
// absolute; any other means that the host runs no such program for us.
func (c *Client) Absent(ctx context.Context, paths ...string) ([]string, error) {
	for _, path := range paths {
		if err := checkFilePath(path); err != nil {
			return nil, &Error{Host: c.cfg.Host, Op: "looking for files", Kind: ErrConfig, Err: err}
		}
	}
	var absent []string
	for rest := paths; len(rest) > 0; {
		n, length := 0, 0
		for n < len(rest) && (n == 0 || length+len(shellQuote(rest[n])) < maxArguments) {
			length += len(shellQuote(rest[n])) + 1
			n++
		}
		some, err := c.absentAmong(ctx, rest[:n])
		if err != nil {
			return nil, err
		}
		absent, rest = append(absent, some...), rest[n:]
	}
	return absent, nil
}

// absentAmong is Absent for as many paths as fit into one command.
func (c *Client) absentAmong(ctx context.Context, paths []string) ([]string, error) {
	line := boundedScript(absentScript, commandLimit, paths...)
	text, err := throughLink(ctx, c, "looking for files", func(l *link) ([]byte, error) {
		return l.commandOutput(ctx, line, len(paths)*2*len(fileUnknown))
	})
	if err != nil {
		return nil, err
	}
	var absent []string
	told := 0
	for word := range strings.FieldsSeq(string(text)) { // What a login shell prints comes before.
		switch word {
		case fileThere, fileUnknown:
			told++
		case fileAbsent:
			if told < len(paths) {
				absent = append(absent, paths[told])
			}
			told++
		}
	}
	if told != len(paths) {
		return nil, &Error{Host: c.cfg.Host, Op: "looking for files", Err: errors.New("the host's shell gave no answer")}
	}
	return absent, nil
}

// commandOutput runs a program on the host and returns what it prints, which is n bytes at most, and what a login shell
// prints before.
func (l *link) commandOutput(ctx context.Context, line string, n int) ([]byte, error) {
	cmd, err := l.startCommand(ctx, line)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cmd.channel.Close() }()
	unblock := context.AfterFunc(ctx, func() { _ = cmd.channel.Close() })
	defer unblock()
	// What goes on and on is cut off.
	text, err := io.ReadAll(io.LimitReader(cmd.channel, int64(n)+maxPreamble))
	if err != nil {
		return nil, err
	}
	if len(text) == n+maxPreamble {
		return nil, errors.New("the host sends more than it was asked for")
	}
	if err := cmd.awaitEnd(ctx, l); err != nil {
		return nil, err
	}
	if outcome := cmd.exitText(); outcome != "" {
		return nil, errors.New(outcome)
	}
	return text, nil
}
