package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Inventory is a set of hosts and what they reported. It connects to each host when it is first needed. All methods may
// be called from several goroutines.
type Inventory struct {
	Configured     []*Host // sorted by name
	log            *slog.Logger
	reading        admission.Mutexes // by host, while its files are checked
	background     sync.WaitGroup
	stopBackground context.CancelFunc
	lifetime       context.Context //nolint:containedctx // bounds the background goroutines, not a call
}

// New prepares an inventory of hosts, by their configured names. It checks the URIs and does no I/O.
func New(hosts map[string]HostConfig, log *slog.Logger) (*Inventory, error) {
	inv := &Inventory{log: log}
	inv.lifetime, inv.stopBackground = context.WithCancel(context.Background())

	var errs []error

	for name, hc := range hosts {
		conn, err := libvirt.Open(libvirt.Config{
			Name: name, URI: hc.URI, Dial: hc.Dial, ConnectTimeout: hc.ConnectTimeout, Logger: log,
			Placeholders: domain.Placeholders,
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("host %q: %w", name, err))

			continue
		}

		inv.Configured = append(inv.Configured, &Host{Name: name, Config: hc, Conn: conn})
	}

	slices.SortFunc(inv.Configured, ByHostName)

	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, inv.Close())
	}

	return inv, nil
}

// Close closes the connections to all hosts in parallel, because each waits for the host's answer. Calls in flight
// return an error.
func (inv *Inventory) Close() error {
	inv.stopBackground()
	inv.background.Wait()

	errs := make([]error, len(inv.Configured))

	var wg sync.WaitGroup
	for i, h := range inv.Configured {
		wg.Go(func() { errs[i] = h.close() })
	}

	wg.Wait()

	return errors.Join(errs...)
}

// Host returns the configured host of that name, or nil if there is none.
func (inv *Inventory) Host(name string) *Host {
	for _, h := range inv.Configured {
		if h.Name == name {
			return h
		}
	}

	return nil
}

// HostNames returns the configured names, sorted.
func (inv *Inventory) HostNames() []string {
	names := make([]string, len(inv.Configured))
	for i, h := range inv.Configured {
		names[i] = h.Name
	}

	return names
}

// AskedHosts returns the names of the hosts that are not fenced, sorted.
func (inv *Inventory) AskedHosts() []string {
	var names []string

	for _, h := range inv.Present() {
		names = append(names, h.Name)
	}

	return names
}

// FencedHosts returns the names of the fenced hosts, sorted.
func (inv *Inventory) FencedHosts() []string {
	return slices.DeleteFunc(inv.HostNames(), func(name string) bool { return !inv.Host(name).Config.Fenced })
}

// Present returns the hosts that are not fenced.
func (inv *Inventory) Present() []*Host {
	return slices.DeleteFunc(slices.Clone(inv.Configured), func(h *Host) bool { return h.Config.Fenced })
}

// Calls returns how often each libvirt procedure was called, by host. Tests and benchmarks use it to check the number
// of round trips.
func (inv *Inventory) Calls() map[string]map[string]int {
	calls := make(map[string]map[string]int, len(inv.Configured))
	for _, h := range inv.Configured {
		calls[h.Name] = h.Conn.Calls()
	}

	return calls
}

func (h *Host) close() error {
	err := h.Conn.Close()
	if h.Config.Close != nil {
		err = errors.Join(err, h.Config.Close())
	}

	return err
}

// UsableHost returns the host of that name, or an error if it isn't configured or is fenced.
func (inv *Inventory) UsableHost(name string) (*Host, error) {
	to := inv.Host(name)

	switch {
	case to == nil:
		return nil, &Error{
			Host: name, Kind: ErrUnconfigured,
			Detail: fmt.Sprintf("host %q is not among the configured hosts; configured are %s", name,
				QuoteList(inv.HostNames())),
			Remedy: "Use one of the configured names, or add the host to hosts.",
		}
	case to.Config.Fenced:
		return nil, &Error{
			Host: name, Kind: ErrUnreachable, Detail: fmt.Sprintf("host %q is fenced", name), Remedy: "Choose another host.",
		}
	default:
		return to, nil
	}
}
