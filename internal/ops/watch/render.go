package watch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/terminal"
)

// Limits for the width of a progress bar.
const (
	narrowestBar = 10
	widestBar    = 50
)

// migratingVMs returns the VMs that are migrating, sorted by name.
func (m *model) migratingVMs() []*vmState {
	var all []*vmState
	for _, v := range m.vms {
		if v.isMigrating() {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *vmState) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.host, b.host))
	})
	return all
}

// liveLines returns the part that is redrawn on a terminal: two lines for each migration, for as many as fit, and a
// line about the fleet.
func (m *model) liveLines(width, height int) []string {
	moves := m.migratingVMs()
	below := m.footerLines(len(moves))
	fit := max(0, (height-len(below)-1)/2)
	widest := 0
	for _, v := range moves {
		widest = max(widest, utf8.RuneCountInString(v.name))
	}
	var lines []string
	for _, v := range moves[:min(len(moves), fit)] {
		s := v.migration
		lines = append(lines,
			fmt.Sprintf("%-*s  %s  %s", widest, terminal.Plain(v.name), hostsOf(s), m.paceText(v)),
			"  "+progressBar(s, max(narrowestBar, min(widestBar,
				width-2-utf8.RuneCountInString(m.amountsText(v))-2)))+"  "+m.amountsText(v))
	}
	if more := len(moves) - fit; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return append(lines, below...)
}

// progressLine describes a migration in one line.
func (m *model) progressLine(v *vmState) string {
	return hostsOf(v.migration) + "  " + m.paceText(v) + "  " + m.amountsText(v)
}

// paceText describes the progress of a migration: its mode, how long it has taken, and the state of the guest
// meanwhile.
func (m *model) paceText(v *vmState) string {
	s := v.migration
	parts := []string{string(s.Mode)}
	if s.Statistics.Elapsed > 0 {
		parts = append(parts, durationText(s.Statistics.Elapsed))
	}
	if n := s.Statistics.Iteration; n > 0 {
		parts = append(parts, fmt.Sprintf("iteration %d", n))
	}
	silent := m.isSilent(s.SourceHost)
	if rate := s.Statistics.DirtyRate * s.Statistics.PageSize; rate > 0 && !silent {
		parts = append(parts, "dirty "+domain.FormatProgress(rate)+"/s")
	}
	if t := s.Statistics.AutoConvergeThrottle; t > 0 {
		parts = append(parts, fmt.Sprintf("throttled %d%%", t))
	}
	if silent {
		parts = append(parts, s.SourceHost+" does not answer")
	}
	return strings.Join(parts, "  ")
}

// sentPercent returns how much doesn't have to be sent any more. It may fall: the guest writes to memory that was
// already sent.
func sentPercent(s *migration.State) uint64 {
	d := s.Statistics.Data
	if d.Total == 0 || d.Remaining > d.Total {
		return 0
	}
	// Until the migration is over, something remains.
	return min((d.Total-d.Remaining)*100/d.Total, 99)
}

// isSilent reports whether a host doesn't answer: what it said of a migration is old.
func (m *model) isSilent(host string) bool { return m.hosts[host] != nil && m.hosts[host].silent }

// stalled is how long a migration sends nothing before this is shown. QEMU then keeps reporting its last rate.
const stalled = 3 * time.Second

// amountsText returns how much of a migration's data is sent and how much is left, and the rate.
func (m *model) amountsText(v *vmState) string {
	s := v.migration
	d := s.Statistics.Data
	if d.Total == 0 {
		return "being set up"
	}
	text := fmt.Sprintf("%2d%%  %s sent, %s of %s left",
		sentPercent(s), domain.FormatProgress(d.Processed), domain.FormatProgress(d.Remaining),
		domain.FormatProgress(d.Total))
	rate, idle := s.Statistics.MemoryRate+s.Statistics.DiskRate, s.Statistics.Elapsed-v.advanced
	switch {
	case m.isSilent(s.SourceHost):
	case idle >= stalled:
		text += ", nothing sent for " + durationText(idle)
	case rate > 0:
		text += ", " + domain.FormatProgress(rate) + "/s"
	}
	return text
}

// progressBar draws the percentage.
func progressBar(s *migration.State, width int) string {
	inner := max(width-2, 1)
	full := int(sentPercent(s)) * inner / 100 //nolint:gosec // at most 99
	head := ""
	if full < inner && s.Statistics.Data.Total > 0 {
		head = ">"
	}
	return "[" + strings.Repeat("=", full) + head + strings.Repeat(" ", inner-full-len(head)) + "]"
}

// footerLines returns a line about the fleet, and lines about the hosts that don't answer.
func (m *model) footerLines(moves int) []string {
	counts := map[string]int{}
	for _, v := range m.vms {
		counts[v.status]++
	}
	var parts []string
	for _, s := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
	}
	line := fmt.Sprintf("%s on %s", plural(len(m.vms), "VM"), plural(len(m.hosts), "host"))
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, ", ")
	}
	if moves == 0 && counts[status.StatusMigrating] == 0 {
		line += "; no migrations"
	}
	lines := []string{line}
	var silent []string
	for _, name := range slices.Sorted(maps.Keys(m.hosts)) {
		if m.hosts[name].silent {
			silent = append(silent, name)
		}
	}
	if len(silent) > 0 {
		lines = append(lines, "no answer from "+strings.Join(silent, ", ")+": shown as seen last")
	}
	return lines
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// completedText describes a completed migration: its duration, data and downtime.
func completedText(job *libvirt.Job) string {
	text := "moved in " + durationText(job.Elapsed) + ": " + domain.FormatProgress(job.Data.Processed) + " sent"
	if job.Iteration > 0 {
		text += fmt.Sprintf(" in %s", plural(int(job.Iteration), "iteration")) //nolint:gosec // few
	}
	if job.Downtime > 0 {
		text += fmt.Sprintf(", downtime %d ms", job.Downtime.Milliseconds())
	}
	return text
}

// text describes the migration that has brought the VM, from its job. libvirt keeps no job of a post-copy on the
// target: what was last seen is told, and that it is no more than that. It returns "" if nothing is known.
func (a arrival) text(job *libvirt.Job) string {
	last := a.move.migration
	switch {
	case job != nil && !a.move.since.IsZero():
		return completedText(new(job.Within(a.at.Sub(a.move.since))))
	case job != nil:
		return completedText(job)
	case last.Mode != migration.PostCopy:
		return ""
	}
	took := last.Statistics.Elapsed
	if !a.move.since.IsZero() {
		took = a.at.Sub(a.move.since)
	}
	text := "moved in " + durationText(took) + ", in the end by post-copy"
	if sent := last.Statistics.Data.Processed; sent > 0 {
		text += ": at least " + domain.FormatProgress(sent) + " sent"
	}
	return text
}

// durationText formats a duration for users: shorter durations are more precise.
func durationText(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	default:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
}
