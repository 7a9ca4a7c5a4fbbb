package bench

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// table is what a benchmark prints: for each thing what it took, what the other way took that it is compared with, and
// the number that counts and the one to reach.
type table struct {
	title string
	// columns name the two ways.
	columns [2]string
	rows    []row
}

type row struct{ what, measured, other, result, goal, verdict string }

// ratio adds a comparison of times. A goal of 0 is none.
func (t *table) ratio(what string, measured, other *sample, goal float64) {
	r := measured.over(other)
	added := row{
		what: what, measured: seconds(measured.median()), other: seconds(other.median()), result: fmt.Sprintf("%.2fx", r),
	}
	if goal > 0 {
		added.goal, added.verdict = fmt.Sprintf("<= %.4gx", goal), verdict(r <= goal)
	}
	t.rows = append(t.rows, added)
}

// difference adds a comparison with a row above.
func (t *table) difference(what string, plan, offline *sample, more, goal time.Duration) {
	t.rows = append(t.rows, row{
		what, seconds(plan.median()), seconds(offline.median()),
		fmt.Sprintf("%+.2f s", more.Seconds()), fmt.Sprintf("<= %+.1f s", goal.Seconds()), verdict(more <= goal),
	})
}

// limit adds a time that is to stay below another.
func (t *table) limit(what string, plan, offline *sample, goal time.Duration) {
	t.rows = append(t.rows, row{
		what, milliseconds(plan.median()), milliseconds(offline.median()), timeAndRatio(plan, offline),
		"<= " + milliseconds(goal), verdict(plan.median() <= goal),
	})
}

// time adds a time without a goal. A nil offline is the same time.
func (t *table) time(what string, plan, offline *sample) {
	added := row{what: what, measured: milliseconds(plan.median()), other: milliseconds(plan.median())}
	if added.result = added.measured; offline != nil {
		added.other, added.result = milliseconds(offline.median()), timeAndRatio(plan, offline)
	}
	t.rows = append(t.rows, added)
}

func timeAndRatio(plan, offline *sample) string {
	return fmt.Sprintf("%s, %.2fx", milliseconds(plan.median()), plan.over(offline))
}

// count adds a number without a goal.
func (t *table) count(what string, n float64) {
	t.rows = append(t.rows, row{what: what, measured: fmt.Sprintf("%.2f", n), other: "0", result: fmt.Sprintf("%.2f", n)})
}

// add adds what is compared without a result.
func (t *table) add(what, measured, other string) {
	t.rows = append(t.rows, row{what: what, measured: measured, other: other})
}

func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintf(w, "\n%s (%d CPUs, load %s)\n\n", t.title, runtime.NumCPU(), load())
	fmt.Fprintf(w, "\t%s\t%s\tresult\tto reach\t\n", t.columns[0], t.columns[1])
	for _, r := range t.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.what, r.measured, r.other, r.result, r.goal, r.verdict)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// load says how busy the computer is: the seconds of a busy one are not comparable.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}

func verdict(reached bool) string {
	if reached {
		return "reached"
	}
	return "not reached"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
