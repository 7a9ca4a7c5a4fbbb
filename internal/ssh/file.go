package ssh

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
)

// ReadEnd returns the last n bytes of the file at an absolute path on the host, or all of a shorter file. A program on
// the host (tail) reads it, with the permissions of the user who logs in.
//
// Errors are those of [Client.DialUnix] if the host can't be reached, and of kind ErrConfig for a path that isn't
// absolute. Any other error means that the host doesn't run the program, or that the program could not read the file.
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

// checkFilePath refuses a path that has another meaning on the host than the caller intended.
func checkFilePath(path string) error {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\x00\n\r") {
		return configError("file path %q: must be absolute, on one line", path)
	}
	return nil
}

// The script's answers about a file: each on a line of its own.
const (
	fileThere   = "virtfleet-file-there"
	fileAbsent  = "virtfleet-file-absent"
	fileUnknown = "virtfleet-file-unknown"
)

// absentScript says for each of its arguments, which are absolute paths, whether there is such a file. A file is absent
// if the nearest visible directory above it may be searched. For line breaks and exclamation marks, see
// link.connectScript.
const absentScript = `for p; do s=` + fileThere + `; test -e "$p" || { s=` + fileUnknown + `; d=$p; ` +
	`while test -n "$d"; do test -L "$d" && break; case $d in */*) d=${d%/*};; *) break;; esac; ` +
	`test -e "${d:-/}" || continue; ` +
	`test -d "${d:-/}" && { test -x "${d:-/}" || break; }; s=` + fileAbsent + `; break; done; }; echo; echo $s; done`

// maxArguments bounds the length of all arguments of one command. Linux accepts no single argument of 128 KiB, and the
// login shell gets the whole command as one argument.
const maxArguments = 64 << 10

// Absent returns the absolute paths that don't exist on the host, as the user who logs in sees it. A path that this
// user may not see, or that leads through a dangling symbolic link, isn't among them. A program on the host (sh) looks,
// and changes nothing.
//
// Errors are those of [Client.DialUnix] if the host can't be reached, and of kind ErrConfig for a path that isn't
// absolute. Any other error means that the host doesn't run the program.
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

// absentAmong does the same as Absent for as many paths as fit into one command.
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
	for word := range strings.FieldsSeq(string(text)) { // The output of a login shell comes before.
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

// commandOutput runs a program on the host and returns its output, up to n bytes, after the output of a login shell.
func (l *link) commandOutput(ctx context.Context, line string, n int) ([]byte, error) {
	cmd, err := l.startCommand(ctx, line)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cmd.channel.Close() }()
	unblock := context.AfterFunc(ctx, func() { _ = cmd.channel.Close() })
	defer unblock()
	// Endless output is cut off.
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
