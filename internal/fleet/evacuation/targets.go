package evacuation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// searchLimit bounds the search for targets. At the limit the search returns the best result so far. If the VMs fit at
// all, it usually ends after a few steps for each VM.
const searchLimit = 200_000

// assignHosts finds a host for every VM, so that all of them together stay within each host's memory and storage and
// away from the VMs that they avoid. It begins as placement would, with the emptiest host, and backtracks where that
// leads to a dead end. It returns an index into hosts for each VM, -1 for a VM that fits nowhere; as few VMs as
// possible get -1.
func assignHosts(going []*decision, hosts []Host) []int {
	s := targetSearch{hosts: slices.Clone(hosts), going: slices.Clone(going), budget: searchLimit, fewest: len(going) + 1}
	for i := range s.hosts {
		s.hosts[i].VMs = slices.Clone(s.hosts[i].VMs)
	}
	// VMs with the fewest targets come first: the others have to make room for them.
	slices.SortStableFunc(s.going, func(a, b *decision) int {
		return cmp.Or(cmp.Compare(len(a.targets), len(b.targets)), -cmp.Compare(a.step.Memory, b.step.Memory))
	})
	s.chosen = make([]int, len(s.going))
	s.placeFrom(0, 0)

	found := make([]int, len(going))
	for i, d := range going {
		found[i] = s.best[slices.Index(s.going, d)]
	}
	return found
}

type targetSearch struct {
	going  []*decision
	hosts  []Host
	budget int
	// chosen are the hosts of the VMs before the current one, best is the best choice for all VMs, and fewest is how
	// many VMs have no host in best.
	chosen, best []int
	fewest       int
}

// placeFrom places the VM at i and all VMs after it. left is how many VMs before it found no host.
func (s *targetSearch) placeFrom(i, left int) {
	s.budget--
	if left >= s.fewest || s.budget < 0 && s.best != nil {
		return
	}
	if i == len(s.going) {
		s.fewest, s.best = left, slices.Clone(s.chosen)
		return
	}
	d := s.going[i]
	for _, h := range s.emptiestFirst() {
		host := &s.hosts[h]
		if !slices.Contains(d.targets, host.Name) || d.misfit(*host) != "" {
			continue
		}
		before := *host
		d.fill(host)
		s.chosen[i] = h
		s.placeFrom(i+1, left)
		*host = before
		if s.fewest == left {
			return // It can't get better from here.
		}
	}
	s.chosen[i] = -1
	s.placeFrom(i+1, left+1)
}

func (s *targetSearch) emptiestFirst() []int {
	order := make([]int, len(s.hosts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return -cmp.Compare(s.hosts[a].Free, s.hosts[b].Free) })
	return order
}

func (d *decision) neighbour() Neighbour {
	return Neighbour{Name: d.vm.Name, Labels: d.vm.Labels, Avoids: d.vm.Avoids, Use: d.use}
}

// fill subtracts from the host what the VM requires there.
func (d *decision) fill(h *Host) {
	use := d.use
	h.Free -= min(h.Free, d.step.Memory)
	h.FreeSpace, h.Pages = minus(h.FreeSpace, d.space[h.Name]), minus(h.Pages, h.pagesFor(use))
	h.Devices, h.Shares = minus(h.Devices, use.ByClass()), minus(h.Shares, SharesOf(use))
	h.VMs = append(h.VMs, d.neighbour())
}

// pagesFor returns how many bytes in huge pages a VM needs on the host, by the size that they have there.
func (h Host) pagesFor(use domain.HostUse) map[uint64]uint64 {
	pages := maps.Clone(use.Pages)
	if bytes := pages[domain.DefaultPages]; bytes > 0 {
		delete(pages, domain.DefaultPages)
		pages[h.DefaultPage] += bytes
	}
	return pages
}

// misfit returns why the host, with the VMs assigned so far, can't accept the VM; "" if it can.
func (d *decision) misfit(h Host) string {
	if h.Free < d.step.Memory {
		return fmt.Sprintf("host %q has %s free of the %s that it needs", h.Name, domain.FormatSize(h.Free),
			domain.FormatSize(d.step.Memory))
	}
	for _, dir := range slices.Sorted(maps.Keys(d.space[h.Name])) {
		free, known := h.FreeSpace[dir]
		if !known || free >= d.space[h.Name][dir] {
			continue
		}
		if dir, growth := strings.CutSuffix(dir, GrowthIn); growth {
			return fmt.Sprintf("host %q lets disks in %s grow to %s more (storage_overprovisioning_factor) of the %s that its "+
				"disks may grow to", h.Name, dir, domain.FormatSize(free), domain.FormatSize(d.space[h.Name][dir+GrowthIn]))
		}
		return fmt.Sprintf("host %q has %s left in %s of the %s that its disks take", h.Name, domain.FormatSize(free), dir,
			domain.FormatSize(d.space[h.Name][dir]))
	}
	pages := h.pagesFor(d.use)
	for _, size := range slices.Sorted(maps.Keys(pages)) {
		if free, known := h.Pages[size]; known && free < pages[size] {
			return fmt.Sprintf("host %q has %s left in pages of %s of the %s that it needs", h.Name, domain.FormatSize(free),
				domain.FormatSize(size), domain.FormatSize(pages[size]))
		}
	}
	classes := d.use.ByClass()
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		if h.Devices[class] < classes[class] {
			return fmt.Sprintf("host %q has %d devices of class %q left of the %d that it needs", h.Name, h.Devices[class],
				class, classes[class])
		}
	}
	if short := h.shortShare(d.use); short != "" {
		return short
	}
	me := d.neighbour()
	for _, n := range h.VMs {
		if me.Excludes(n) {
			return fmt.Sprintf("host %q has %q, which must not share a host with it", h.Name, n.Name)
		}
		if what := me.Use.Shared(n.Use); what != "" && n.Name != me.Name {
			return fmt.Sprintf("host %q has given %s to %q", h.Name, what, n.Name)
		}
	}
	return ""
}

// Excludes says whether the two are different VMs that must not share a host, whichever of them requires that.
func (n Neighbour) Excludes(other Neighbour) bool {
	return n.Name != other.Name && (n.avoids(other) || other.avoids(n))
}

func (n Neighbour) avoids(other Neighbour) bool {
	return len(n.Avoids) > 0 && policy.HasLabels(other.Labels, n.Avoids)
}

// describeShortage returns what keeps the VM off each host, once the other VMs are on their targets.
func (d *decision) describeShortage(going []*decision, hosts []Host) string {
	var all []string
	for _, h := range hosts {
		if !slices.Contains(d.targets, h.Name) {
			continue
		}
		h.VMs = slices.Clone(h.VMs)
		for _, other := range going {
			if other.step.Target == h.Name {
				other.fill(&h)
			}
		}
		all = append(all, cmp.Or(d.misfit(h), fmt.Sprintf("host %q is needed for others", h.Name)))
	}
	return strings.Join(all, "; ")
}
