package ssh

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func (t *target) expandAll(keyword string, files []string) ([]string, error) {
	expanded := make([]string, 0, len(files))
	for _, file := range files {
		path, err := t.expandFileName(file)
		if err != nil {
			return nil, configError("%s %s: %w", keyword, file, err)
		}
		expanded = append(expanded, path)
	}
	return expanded, nil
}

// expandFileName expands a file name: "~", ${VARIABLE} and percent tokens.
func (t *target) expandFileName(s string) (string, error) {
	if strings.HasPrefix(s, "~") && s != "~" && !strings.HasPrefix(s, "~/") {
		return "", errors.New("another user's home directory is not supported")
	}
	s, err := t.expandTokens(s)
	if err != nil {
		return "", err
	}
	for {
		start := strings.Index(s, "${")
		if start < 0 {
			return expandHome(s, t.home), nil
		}
		end := strings.Index(s[start:], "}")
		if end < 0 {
			return "", errors.New("${ without its end")
		}
		name := s[start+2 : start+end]
		value, ok := os.LookupEnv(name)
		if !ok || strings.Contains(value, "${") {
			return "", fmt.Errorf("environment variable %s is not set", name)
		}
		s = s[:start] + value + s[start+end+1:]
	}
}

// expandJump expands the percent tokens that ProxyJump accepts: %%, %h, %n, %p and %r.
func (t *target) expandJump(s string) (string, error) {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if i++; i < len(s) && !strings.ContainsRune("%hnpr", rune(s[i])) {
			return "", fmt.Errorf("token %%%c is not supported", s[i])
		}
	}
	return t.expandTokens(s)
}

// expandTokens expands the percent tokens of ssh_config.
func (t *target) expandTokens(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", errors.New("% at the end")
		}
		switch s[i] {
		case '%':
			b.WriteByte('%')
		case 'C':
			host, _ := os.Hostname()
			sum := sha1.Sum([]byte(host + t.host + strconv.Itoa(t.port) + t.user + t.jump)) //nolint:gosec // As ssh names files.
			b.WriteString(hex.EncodeToString(sum[:]))
		case 'L':
			host, _ := os.Hostname()
			host, _, _ = strings.Cut(host, ".")
			b.WriteString(host)
		case 'l':
			host, _ := os.Hostname()
			b.WriteString(host)
		case 'j':
			b.WriteString(t.jump)
		case 'd':
			b.WriteString(t.home)
		case 'h':
			b.WriteString(t.host)
		case 'i':
			b.WriteString(strconv.Itoa(os.Getuid()))
		case 'k':
			b.WriteString(cmp.Or(t.hostKeyAlias, t.alias))
		case 'n':
			b.WriteString(t.alias)
		case 'p':
			b.WriteString(strconv.Itoa(t.port))
		case 'r':
			b.WriteString(t.user)
		case 'u':
			b.WriteString(t.localUser)
		default:
			return "", fmt.Errorf("token %%%c is not supported", s[i])
		}
	}
	return b.String(), nil
}

// configInt parses a whole number.
func configInt(o options, keyword string, fallback int) (int, error) {
	s := o.firstArgument(keyword)
	if s == "" {
		return fallback, nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0, configError("ssh_config: %s %q: not a number in range", keyword, s)
	}
	return int(n), nil
}

// configDuration parses a time in ssh's format: seconds, or numbers with units as in 1m30s.
func configDuration(o options, keyword string, fallback time.Duration) (time.Duration, error) {
	s := o.firstArgument(keyword)
	if s == "" || s == noFile {
		return fallback, nil
	}
	if seconds, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, configError("ssh_config: %s %q: not a time", keyword, s)
	}
	return d, nil
}

func homeDir() (string, error) {
	if home, err := os.UserHomeDir(); err == nil {
		return home, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}

func expandHome(file, home string) string {
	if file == "~" {
		return home
	}
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		return filepath.Join(home, rest)
	}
	return file
}
