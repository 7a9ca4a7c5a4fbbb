package ssh

import (
	"context"
	"fmt"
	"strings"
)

// The script prints, for each file in the directory at its argument, its mark, and another time its filesystem; then
// that this was all of them. It prints nothing of a directory that the user may not list. One that is absent has no
// files.
const (
	listedMark     = "virtfleet-listed-mark:"
	filesystemMark = "virtfleet-listed-filesystem:"
	allListed      = "virtfleet-all-listed:"

	listScript = lookScript + `d=$1; look "$d"; case $s in *` + fileUnknown + `*) exit 1;; *` + fileThere + `*) ` +
		`test -d "$d" && test -r "$d" && test -x "$d" || exit 1; export LC_ALL=C; ` +
		`find -L "$d" -maxdepth 1 -type f -exec stat -L --printf "` + listedMark + `%s:%b:%B:%i:%.9Y:%.9Z:%n\000" {} + ; ` +
		`find -L "$d" -maxdepth 1 -type f -exec stat -L -f --printf "` + filesystemMark + `%t:%n\000" {} + ;; esac; ` +
		`printf "` + allListed + `\000"`
	// listLimit is more than the marks of some ten thousand files.
	listLimit = 8 << 20
)

// DirectoryMarks is [Client.FileMarks] for all files in a directory. Programs on the host (find, stat) look.
//
// Errors are those of [Client.Exist]. A directory that can't be listed, or that has too many files, also is an error.
func (c *Client) DirectoryMarks(ctx context.Context, dir string) (map[string]FileMark, error) {
	const op = "listing a directory"
	if err := checkFilePath(dir); err != nil {
		return nil, &Error{Host: c.cfg.Host, Op: op, Kind: ErrConfig, Err: err}
	}
	text, err := throughLink(ctx, c, op, commandLimit, func(ctx context.Context, l *link) ([]byte, error) {
		return l.commandOutput(ctx, boundedScript(listScript, commandLimit, dir), listLimit)
	})
	if err != nil {
		return nil, err
	}
	marks, filesystems, all := map[string]string{}, map[string]string{}, false
	for record := range strings.SplitSeq(string(text), "\x00") {
		// The output of a login shell comes before the first one.
		if _, mark, ok := strings.Cut(record, listedMark); ok {
			if parts := strings.SplitN(mark, ":", 7); len(parts) == 7 {
				marks[parts[6]] = strings.TrimSuffix(mark, ":"+parts[6])
			}
		} else if _, mark, ok := strings.Cut(record, filesystemMark); ok {
			kind, path, _ := strings.Cut(mark, ":")
			filesystems[path] = kind
		} else if strings.HasSuffix(record, allListed) {
			all = true
		}
	}
	if !all {
		return nil, &Error{Host: c.cfg.Host, Op: op, Kind: ErrProgram, Err: fmt.Errorf("%w about %s", errNoAnswer, dir)}
	}
	files := make(map[string]FileMark, len(marks))
	for path, mark := range marks {
		if m, ok := parseFileMark(mark + ":" + filesystems[path]); ok {
			files[path] = m
		}
	}
	return files, nil
}
