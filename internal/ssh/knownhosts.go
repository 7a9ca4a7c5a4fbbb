package ssh

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" // The format of hashed names in known_hosts; it hides names, it proves nothing.
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/sys/unix"
)

// The markers of lines in known_hosts.
const (
	markerAuthority = "cert-authority"
	markerRevoked   = "revoked"
)

// knownKey is a line of known_hosts.
type knownKey struct {
	marker   string
	patterns []string
	key      xssh.PublicKey
	file     string
	line     int
}

// readKnownHosts reads the files that exist. Like ssh, it skips lines that it can't read, for example with a newer type
// of key.
func readKnownHosts(files []string, log *slog.Logger) ([]knownKey, error) {
	var keys []knownKey
	for _, file := range files {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, configError("reading known hosts: %w", err)
		}
		for i, line := range bytes.Split(data, []byte("\n")) {
			marker, patterns, key, _, _, err := xssh.ParseKnownHosts(line)
			if errors.Is(err, io.EOF) {
				continue
			}
			if err != nil || marker != "" && marker != markerAuthority && marker != markerRevoked {
				log.Debug("skipping a line of known_hosts", "file", file, "line", i+1)
				continue
			}
			keys = append(keys, knownKey{marker: marker, patterns: patterns, key: key, file: file, line: i + 1})
		}
	}
	return keys, nil
}

// matches reports whether the line is about a host, given by its name in known_hosts.
func (k *knownKey) matches(name string) bool {
	if len(k.patterns) == 1 && strings.HasPrefix(k.patterns[0], "|") {
		return matchHashed(k.patterns[0], name)
	}
	return matchPatterns(name, k.patterns)
}

// matchHashed compares a name with "|1|salt|hash".
func matchHashed(pattern, name string) bool {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	want, err := base64.StdEncoding.DecodeString(parts[3])
	if err != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), want)
}

// recording prevents clients of this process from recording at the same time; a lock on the file prevents other
// processes.
var recording sync.Mutex

// errKnownMeanwhile means that a key no longer needs to be recorded.
var errKnownMeanwhile = errors.New("another process has recorded a key of this host")

// recordHostKey appends a key to the first of the user's known_hosts files, unless reading all files once more, while
// no other process of ours writes, returns an error.
func recordHostKey(
	t *target, name string, key xssh.PublicKey, log *slog.Logger, lookAgain func() error,
) (err error) {
	if len(t.userKnownHosts) == 0 {
		return errors.New("no known_hosts file is configured")
	}
	file := t.userKnownHosts[0]
	recording.Lock()
	defer recording.Unlock()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := lockFile(f); err != nil {
		return err
	}
	if err := lookAgain(); err != nil {
		return err
	}
	written := name
	if t.hashKnownHosts {
		written = knownhosts.HashHostname(name)
	}
	line := written + " " + string(xssh.MarshalAuthorizedKey(key))
	if unfinished, err := endsMidLine(f); err != nil {
		return err
	} else if unfinished {
		line = "\n" + line
	}
	if _, err := f.WriteString(line); err != nil {
		return err
	}
	log.Info("recorded the key of a new host", "name", name, "key", key.Type(),
		"fingerprint", xssh.FingerprintSHA256(key), "file", file)
	return nil
}

// lockTimeout bounds the wait for another process that records a key, which takes milliseconds.
const lockTimeout = 5 * time.Second

// lockFile prevents other processes of ours from writing to a file until it is closed. It doesn't fail on a filesystem
// without locks.
func lockFile(f *os.File) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for begin := time.Now(); time.Since(begin) < lockTimeout; <-again.C {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil
		}
	}
	return fmt.Errorf("another process has locked %s for %s", f.Name(), lockTimeout)
}

// endsMidLine reports whether the last line of a file lacks its line break.
func endsMidLine(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false, err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}
