package watch

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/config"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/terminal"
)

const (
	defaultInterval  = time.Second
	shortestInterval = 100 * time.Millisecond
	// farewell is how long to wait at the end for a reader that doesn't read.
	farewell = time.Second
)

// options are the command line's options.
type options struct {
	config   string
	interval time.Duration
}

func parseArguments(args []string, messages io.Writer) (options, error) {
	var o options
	f := config.NewFlags("watch")
	f.DurationVar(&o.interval, "interval", defaultInterval, "how often hosts are asked, besides when something happens, "+
		"and progress is shown")
	if err := f.Parse(args, messages); err != nil {
		return o, err
	}
	o.config = f.Config
	if o.interval < shortestInterval {
		return o, fmt.Errorf("-interval must be at least %v", shortestInterval)
	}
	return o, nil
}

// Run shows the fleet on out until ctx ends. Other messages go to messages; on a terminal they are shown between the
// lines.
func Run(ctx context.Context, args []string, open config.Opener, out, messages io.Writer) error {
	o, err := parseArguments(args, messages)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	screen := terminal.NewScreen(out)
	if screen.Live() {
		messages = screen
	}
	log := slog.New(slog.NewTextHandler(messages, &slog.HandlerOptions{Level: slog.LevelError}))
	f, err := config.Open(ctx, o.config, open, log)
	if err != nil {
		return err
	}
	hosts := f.AskedHosts()
	if len(hosts) == 0 {
		return errors.Join(errors.New("all hosts are fenced"), f.Close())
	}
	ctx, stop := context.WithCancel(ctx)
	w := newWatcher(f, hosts, o.interval)
	var work sync.WaitGroup
	work.Go(func() { w.pollAllHosts(ctx) })
	drawn := make(chan error, 1)
	go func() { drawn <- drawUntilDone(ctx, w, screen) }()
	select {
	case err = <-drawn: // the reader is gone
	case <-ctx.Done():
		select {
		case err = <-drawn:
		case <-time.After(farewell):
		}
	}
	stop()
	work.Wait()
	return errors.Join(err, f.Close())
}

// drawUntilDone shows changes immediately, and the progress of migrations at every tick.
func drawUntilDone(ctx context.Context, w *watcher, screen *terminal.Screen) error {
	m := newModel(w.hosts)
	format := terminal.TimeFormat
	if screen.Live() {
		format = terminal.ClockFormat
	}
	lines := terminal.NewLines(format, w.hosts)
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		ticked := false
		select {
		case <-ctx.Done():
			return showChanges(w, m, screen, lines, false)
		case <-w.news:
			if !sleep(ctx, batchDelay) {
				continue
			}
		case <-tick.C:
			ticked = true
		}
		if err := showChanges(w, m, screen, lines, ticked); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
}

// showChanges shows what has changed. Without a live part, the progress is shown in lines of its own.
func showChanges(w *watcher, m *model, screen *terminal.Screen, lines *terminal.Lines, progress bool) error {
	var stay []string
	for _, c := range w.mergePolls(m) {
		stay = append(stay, lines.Line(c.at, c.host, c.name, c.what))
	}
	if screen.Live() {
		return screen.Draw(stay, m.liveLines(screen.Size()))
	}
	if !m.introduced && m.allHostsPolled() {
		m.introduced = true
		for _, line := range m.footerLines(len(m.migratingVMs())) {
			stay = append(stay, lines.Line(time.Now(), terminal.None, terminal.None, line))
		}
	}
	if progress {
		for _, v := range m.migratingVMs() {
			stay = append(stay, lines.Line(time.Now(), v.host, v.name, m.progressLine(v)))
		}
	}
	return screen.Print(stay...)
}
