package inventory

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
)

const (
	// qemuLogs is where libvirt keeps QEMU's logs, unless a host is configured otherwise.
	qemuLogs = "/var/log/libvirt/qemu"
	// qemuLogEnd is how many bytes of a log are read. A command line alone has some thousand.
	qemuLogEnd = 32 << 10
	// qemuLogLines is how many lines of it are told.
	qemuLogLines = 10
	// qemuLogsTimeout bounds the reading on all hosts: one that doesn't answer doesn't keep the failure from being told.
	qemuLogsTimeout = 10 * time.Second
	// qemuLogDelay is how long a log is awaited: what QEMU writes goes through another process, virtlogd.
	qemuLogDelay = time.Second
	// qemuLogTimeout bounds the reading of the log of one host.
	qemuLogTimeout = 5 * time.Second
)

// QEMULogPath is where the host has the log of the VM of that name.
func QEMULogPath(name string) string { return path.Join(qemuLogs, name+".log") }

// QEMULog is the end of what a host's log of a VM holds: QEMU's own words, and libvirt's about its life.
type QEMULog struct {
	// Lines are what was written since QEMU was started last, as far as the end that was read reaches back; its command
	// line is left out.
	Lines []string
	// Started and Stopped are when QEMU was started and when it ended; zero where the lines that were read don't tell, and
	// Stopped while it runs.
	Started, Stopped time.Time
}

// errNoFiles means that a host is reached in a way that brings no files along.
var errNoFiles = errors.New("only what is reached over SSH lets its files be read")

// ReadQEMULog reads the end of the VM's log on the host.
func (h *Host) ReadQEMULog(ctx context.Context, name string) (QEMULog, error) {
	if h.Config.ReadEnd == nil {
		return QEMULog{}, errNoFiles
	}

	ctx, cancel := context.WithTimeout(ctx, qemuLogTimeout)
	defer cancel()

	text, err := h.Config.ReadEnd(ctx, QEMULogPath(name), qemuLogEnd)
	if err != nil {
		return QEMULog{}, err
	}

	return parseQEMULog(string(text)), nil
}

// libvirtsLine is what libvirt writes to the log. QEMU writes its dates otherwise, if at all.
var libvirtsLine = regexp.MustCompile(
	`^(\d{4}-\d{2}-\d{2} [0-9:.]+\+0000): (starting up|shutting down|initiating migration)?`,
)

// parseQEMULog reads what follows the last beginning of QEMU.
func parseQEMULog(text string) QEMULog {
	var log QEMULog

	command := false

	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")

		part := libvirtsLine.FindStringSubmatch(line)
		if part == nil {
			part = make([]string, 3)
		}

		switch at, _ := time.Parse("2006-01-02 15:04:05.000-0700", part[1]); {
		case part[2] == "starting up":
			log = QEMULog{Started: at}
		case strings.HasSuffix(line, `\`): // A command line goes on in the next one.
			command, log.Lines = true, nil
		case command:
			command = false
		case strings.TrimSpace(line) != "":
			log.Lines = append(log.Lines, line)

			if part[2] == "shutting down" {
				log.Stopped = at
			}
		}
	}

	return log
}

// End is the last lines.
func (l QEMULog) End() []string { return lastLines(l.Lines) }

func lastLines(lines []string) []string { return lines[max(0, len(lines)-qemuLogLines):] }

// Since is when a VM that is active, or isn't, became so; zero where the log doesn't tell.
func (l QEMULog) Since(active bool) time.Time {
	switch {
	case !active:
		return l.Stopped
	case l.Stopped.IsZero():
		return l.Started
	default: // Its end and the answer of libvirt crossed.
		return time.Time{}
	}
}

// Failure are the last lines that may explain a failure: QEMU's own, since the last migration began if one did.
func (l QEMULog) Failure() []string {
	words := []string{}

	for _, line := range l.Lines {
		part := libvirtsLine.FindStringSubmatch(line)

		switch {
		case part != nil && part[2] == "initiating migration":
			words = words[:0]
		case part != nil, strings.HasPrefix(line, "char device redirected to "): // said of every serial console
		default:
			words = append(words, line)
		}
	}

	return lastLines(words)
}

// AttachQEMULog adds to a failure what QEMU wrote to its log on the hosts since the VM was started there, or since it
// began to leave. libvirt tells only of a start, and not always. A log that can't be read has nothing to add: the
// failure is what matters. It is read also after a cancel, within qemuLogsTimeout for all hosts.
func AttachQEMULog(ctx context.Context, e *Error, name string, hosts ...*Host) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), qemuLogsTimeout)
	defer cancel()

	_ = admission.Pause(ctx, qemuLogDelay)

	var paragraphs []string

	for _, h := range hosts {
		log, err := h.ReadQEMULog(ctx, name)
		if err != nil {
			continue
		}

		words := slices.DeleteFunc(log.Failure(), func(line string) bool {
			return strings.Contains(e.Error(), line) // libvirt told it
		})
		if len(words) > 0 {
			paragraphs = append(paragraphs, fmt.Sprintf("The end of QEMU's log on host %q:\n  %s", h.Name,
				strings.Join(words, "\n  ")))
		}
	}

	e.Words = strings.Join(paragraphs, "\n\n")
}
