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
	// qemuLogs is where libvirt keeps QEMU's logs, unless the host is configured otherwise.
	qemuLogs = "/var/log/libvirt/qemu"
	// qemuLogEnd is how many bytes of a log are read. A command line alone has several thousand.
	qemuLogEnd = 32 << 10
	// qemuLogLines is how many lines of the log are shown.
	qemuLogLines = 10
	// incomingMigration is how the argument begins with which QEMU waits for a migration. A VM that is restored from a
	// file has another one.
	incomingMigration = "-incoming defer"
	// qemuLogsTimeout limits the reading on all hosts, so that a host that doesn't answer doesn't delay the report of the
	// failure.
	qemuLogsTimeout = 10 * time.Second
	// qemuLogDelay is how long to wait for the log: QEMU's output passes through another process, virtlogd.
	qemuLogDelay = time.Second
	// qemuLogTimeout limits the reading of the log of one host.
	qemuLogTimeout = 5 * time.Second
)

// QEMULogPath returns the path of the log of the VM of that name on its host.
func QEMULogPath(name string) string { return path.Join(qemuLogs, name+".log") }

// QEMULog is the end of a VM's log on a host: QEMU's messages, and libvirt's about the start and the end of QEMU.
type QEMULog struct {
	// Lines are the lines since the last start of QEMU, as far as the bytes that were read reach back, without its command
	// line.
	Lines []string
	// Started is when QEMU started. It is zero if the lines don't say, and if QEMU was started to receive a migration: its
	// guest had started earlier, on another host. Stopped is when QEMU ended, zero while it runs.
	Started, Stopped time.Time
	// StopReason is why QEMU ended, as libvirt says in the line "shutting down, reason=...": crashed, destroyed,
	// migrated, ... It is "" if the lines don't say.
	StopReason string
}

// errNoFiles means that the host's URI gives no access to its files.
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

// libvirtsLine matches a line that libvirt writes to the log. QEMU writes dates in another format, if at all.
var libvirtsLine = regexp.MustCompile(
	`^(\d{4}-\d{2}-\d{2} [0-9:.]+\+0000): (starting up|shutting down|initiating migration)?(?:, reason=(\w+))?`,
)

// parseQEMULog parses the lines after the last start of QEMU.
func parseQEMULog(text string) QEMULog {
	var log QEMULog

	command := false

	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")

		part := libvirtsLine.FindStringSubmatch(line)
		if part == nil {
			part = make([]string, 4)
		}

		switch at, _ := time.Parse("2006-01-02 15:04:05.000-0700", part[1]); {
		case part[2] == "starting up":
			log = QEMULog{Started: at}
		case strings.HasSuffix(line, `\`): // the command line continues on the next line
			command, log.Lines = true, nil

			if strings.HasPrefix(line, incomingMigration) {
				log.Started = time.Time{}
			}
		case command:
			command = false
		case strings.TrimSpace(line) != "":
			log.Lines = append(log.Lines, line)

			if part[2] == "shutting down" {
				log.Stopped, log.StopReason = at, part[3]
			}
		}
	}

	return log
}

// End returns the last lines.
func (l QEMULog) End() []string { return lastLines(l.Lines) }

func lastLines(lines []string) []string { return lines[max(0, len(lines)-qemuLogLines):] }

// Since returns since when a VM has been active, or off; zero if the log doesn't say.
func (l QEMULog) Since(active bool) time.Time {
	switch {
	case !active:
		return l.Stopped
	case l.Stopped.IsZero():
		return l.Started
	default: // QEMU ended after libvirt had answered
		return time.Time{}
	}
}

// Failure returns the last lines that may explain a failure: QEMU's own, since the start of the last migration if there
// was one.
func (l QEMULog) Failure() []string {
	words := []string{}

	for _, line := range l.Lines {
		part := libvirtsLine.FindStringSubmatch(line)

		switch {
		case part != nil && part[2] == "initiating migration":
			words = words[:0]
		case part != nil, strings.HasPrefix(line, "char device redirected to "): // logged for every serial console
		default:
			words = append(words, line)
		}
	}

	return lastLines(words)
}

// AttachQEMULog adds to a failure what QEMU wrote to its log on the hosts since the VM was started there, or since its
// migration began. libvirt reports QEMU's messages only for a start, and not always. A log that can't be read adds
// nothing: the failure itself matters more. The logs are read after a cancel too, within qemuLogsTimeout for all hosts.
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
			return strings.Contains(e.Error(), line) // libvirt reported it already
		})
		if len(words) > 0 {
			paragraphs = append(paragraphs, fmt.Sprintf("The end of QEMU's log on host %q:\n  %s", h.Name,
				strings.Join(words, "\n  ")))
		}
	}

	e.Words = strings.Join(paragraphs, "\n\n")
}
