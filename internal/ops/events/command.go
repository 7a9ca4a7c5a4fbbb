package events

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/config"
)

// farewell is how long to wait at the end for a reader that doesn't read.
const farewell = time.Second

// The formats of output.
const (
	formatText = "text"
	formatJSON = "json"
)

// options are the command line's options.
type options struct {
	config, vm, format string
	hosts              []string
}

func parseArguments(args []string, messages io.Writer) (options, error) {
	var o options
	f := config.NewFlags("events")
	f.Func("host", "only the host of this name; may be given several times", func(name string) error {
		o.hosts = append(o.hosts, name)
		return nil
	})
	f.StringVar(&o.vm, "vm", "", "only the virtual machine of this name or UUID, and what happens to hosts")
	f.StringVar(&o.format, "output", formatText, "text, or json for one object in each line")
	if err := f.Parse(args, messages); err != nil {
		return o, err
	}
	o.config = f.Config
	if o.format != formatText && o.format != formatJSON {
		return o, fmt.Errorf("-output must be %s or %s, not %q", formatText, formatJSON, o.format)
	}
	return o, nil
}

// Run prints events to out until ctx ends, or until no host can report events. Other messages go to messages.
func Run(ctx context.Context, args []string, open config.Opener, out, messages io.Writer) error {
	o, err := parseArguments(args, messages)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(messages, &slog.HandlerOptions{Level: slog.LevelWarn}))
	f, err := config.Open(ctx, o.config, open, log)
	if err != nil {
		return err
	}
	hosts, err := chooseHosts(f.AskedHosts(), o.hosts)
	if err == nil {
		err = streamEvents(ctx, f, hosts, o, out)
	}
	return errors.Join(err, f.Close())
}

// chooseHosts returns the hosts to follow: the named ones, or all.
func chooseHosts(all, named []string) ([]string, error) {
	for _, name := range named {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("there is no host %q to follow; there are: %s", name, strings.Join(all, ", "))
		}
	}
	switch {
	case len(named) > 0:
		slices.Sort(named)
		return slices.Compact(named), nil
	case len(all) == 0:
		return nil, errors.New("all hosts are fenced")
	default:
		return all, nil
	}
}

// streamEvents follows the hosts until ctx ends.
func streamEvents(ctx context.Context, f *fleet.Fleet, hosts []string, o options, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	q := newQueue()
	failures := make([]error, len(hosts))
	var followers sync.WaitGroup
	for i, host := range hosts {
		followers.Go(func() {
			failures[i] = f.Follow(ctx, host, func(e fleet.Event) {
				if isAbout(e, o.vm) {
					q.put(e)
				}
			})
		})
	}
	followed := make(chan struct{})
	go func() {
		followers.Wait()
		q.end()
		close(followed)
	}()
	written := make(chan error, 1)
	go func() { written <- printEvents(q, newPrinter(o.format, hosts), out) }()
	select {
	case err := <-written: // the reader is gone, or no host reports events
		stop()
		<-followed
		return errors.Join(err, errors.Join(failures...))
	case <-ctx.Done():
	}
	<-followed
	select {
	case err := <-written:
		return err
	case <-time.After(farewell):
		return nil
	}
}

// isAbout reports whether an event is about the VM, or about a host.
func isAbout(e fleet.Event, vm string) bool {
	return vm == "" || e.UUID == "" || e.Name == vm || strings.EqualFold(e.UUID, vm)
}

// printEvents prints events until the queue has ended.
func printEvents(q *queue, p *printer, out io.Writer) error {
	for {
		events, missed, more := q.takeAll()
		var lines []byte
		for _, e := range events {
			lines = append(lines, p.eventLine(e)...)
		}
		if missed > 0 {
			lines = append(lines, p.missedLine(time.Now(), missed)...)
		}
		if len(lines) > 0 {
			if _, err := out.Write(lines); err != nil {
				return fmt.Errorf("writing events: %w", err)
			}
		}
		if !more {
			return nil
		}
	}
}
