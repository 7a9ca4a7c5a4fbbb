package domain

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	// wholeVM is what the names of the quota and the period of the whole VM begin with. Its threads are below it.
	wholeVM = "global_"
	// usualPeriod is the period of a quota without one, in microseconds.
	usualPeriod = 100000
)

// joinMemoryLimits makes one call of those that set memory limits. libvirt compares each call with the limits that the
// running domain has at that moment, and would refuse a hard limit above a swap limit that is still to be raised. It
// orders the limits of one call by itself.
func joinMemoryLimits(steps []Step) []Step {
	limits := map[string]string{}
	var paths []string
	first := slices.IndexFunc(steps, func(s Step) bool { return s.Kind == SetMemoryLimit })
	rest := slices.DeleteFunc(steps, func(s Step) bool {
		if s.Kind == SetMemoryLimit {
			limits[s.Path[strings.LastIndexByte(s.Path, '.')+1:]] = s.Value
			paths = append(paths, s.Path)
		}
		return s.Kind == SetMemoryLimit
	})
	if first < 0 {
		return rest
	}
	return slices.Insert(rest, first, Step{
		Kind: SetMemoryLimit, Path: strings.Join(paths, ", "), Value: FormatTexts(limits),
	})
}

// orderSchedulers puts the calls that set quotas and periods, which are next to each other, into an order that the
// kernel accepts. Each call sets one number, and with cgroups of version 1 no thread may have a larger part of a CPU
// than the whole VM has, not even between two calls.
func orderSchedulers(steps []Step, have, want Values) {
	after := maps.Clone(have)
	if after == nil {
		after = Values{}
	}
	maps.Copy(after, want)
	rank := func(s Step) int {
		name := strings.TrimPrefix(s.Path, "cpu.")
		kind := strings.TrimSuffix(strings.TrimSuffix(name, "quota"), "period")
		if kind == name {
			return 0 // shares
		}
		order := 2
		if kind == wholeVM {
			// The whole VM gets more before its threads do, and less after them.
			order = 1
			if partOfCPU(after, kind) < partOfCPU(have, kind) {
				order = 3
			}
		}
		// Between the two calls, a thread has less than before or than afterwards, and the whole VM more.
		longer := periodOf(after, kind) > periodOf(have, kind)
		second := strings.HasSuffix(name, "period") != (longer != (kind == wholeVM))
		if second {
			return 2*order + 1
		}
		return 2 * order
	}
	isScheduler := func(s Step) bool { return s.Kind == SetScheduler }
	first := max(slices.IndexFunc(steps, isScheduler), 0)
	count := slices.IndexFunc(steps[first:], func(s Step) bool { return !isScheduler(s) })
	if count < 0 {
		count = len(steps) - first
	}
	slices.SortStableFunc(steps[first:first+count], func(a, b Step) int { return cmp.Compare(rank(a), rank(b)) })
}

// partOfCPU returns how many CPUs a quota is worth.
func partOfCPU(values Values, kind string) float64 {
	quota, err := strconv.ParseFloat(limitOrNone(values[join("cpu", kind+"quota")]), 64)
	if err != nil {
		return math.Inf(1)
	}
	return quota / periodOf(values, kind)
}

func periodOf(values Values, kind string) float64 {
	period, err := strconv.ParseFloat(values[join("cpu", kind+"period")], 64)
	if err != nil || period == 0 {
		return usualPeriod
	}
	return period
}

// checkMemory checks what is declared of the memory.
func checkMemory(value func(attribute string) string) (attribute, problem string) {
	hard, hardErr := strconv.ParseUint(value("hard_limit"), 10, 64)
	swap, swapErr := strconv.ParseUint(value("swap_hard_limit"), 10, 64)
	if hardErr == nil && swapErr == nil && hard > 0 && swap > 0 && swap < hard {
		return "swap_hard_limit", "It includes the memory, so it can't be below hard_limit."
	}
	if attribute, problem := checkDefaultPages(value); problem != "" {
		return attribute, problem
	}
	return checkNumatune(value)
}
