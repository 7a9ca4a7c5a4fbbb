package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
)

// ArrivingFiles is what a host records about a VM whose files a move copies there. The VM has a record of its own at
// the source. That is lost with the source, and then only this one tells a half copy from a disk.
type ArrivingFiles struct {
	VM    string    `json:"vm"`
	From  string    `json:"from"`
	Began time.Time `json:"began,omitzero"`
	Paths []string  `json:"paths"`
}

// ArrivalOf returns the record of the files with which the VM of that UUID arrives. It is written before the first of
// them is made, and removed when the VM has arrived or they are removed.
func ArrivalOf(uuid string) hostset.Creation { return hostset.Creation{Kind: "copies", Name: uuid} }

// ArrivingFiles returns what moves copy to a host that answered, or were copying there when they were interrupted, by
// the UUID of the VM. Unless fresh is set, it is read once for all who share the reading of the host.
func (a Reply) ArrivingFiles(ctx context.Context, fresh bool) (map[string]ArrivingFiles, error) {
	if fresh || a.View == nil || a.View.arriving == nil {
		return readArriving(ctx, a.Host)
	}

	return a.View.arriving.get(ctx, "", func(ctx context.Context) (map[string]ArrivingFiles, error) {
		return readArriving(ctx, a.Host)
	})
}

// readArriving asks a host. If nothing arrives there, that is one round trip.
func readArriving(ctx context.Context, h *Host) (map[string]ArrivingFiles, error) {
	prefix := ArrivalOf("").UsageID()

	ids, err := h.Conn.OwnSecretIDs(ctx, prefix)
	if errors.Is(err, ErrUnsupported) {
		return nil, nil // Without secrets there are no locks, and nothing moves to the host.
	}

	if err != nil {
		return nil, err
	}

	files := make(map[string]ArrivingFiles, len(ids))

	for _, id := range ids {
		uuid := strings.TrimPrefix(id, prefix)

		text, err := ArrivalOf(uuid).Begun(ctx, h.Conn)
		if err != nil {
			return nil, err
		}

		if text == "" {
			continue // It is over by now. Or its writer was killed before it wrote the value, and so made no file.
		}

		var f ArrivingFiles
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			return nil, fmt.Errorf("%w: the record %s of host %q can't be read: %w", ErrInvalid, id, h.Name, err)
		}

		files[uuid] = f
	}

	return files, nil
}

// HalfCopy is why a file isn't known to be whole, and what a user can do about it.
type HalfCopy struct{ Why, Remedy string }

// Unfinished returns, by path, which files of the host are no disks for the VM of that UUID, as far as that is known.
// The VM itself may have the files with which it arrives.
func (h *Host) Unfinished(
	ctx context.Context, arriving map[string]ArrivingFiles, files []string, uuid string,
) map[string]HalfCopy {
	others := maps.Clone(arriving)
	delete(others, uuid)

	half := map[string]HalfCopy{}
	for file, of := range h.arrivingWith(ctx, others, files) {
		half[file] = h.halfCopy(file, of, others[of])
	}

	return half
}

func (h *Host) halfCopy(file, of string, f ArrivingFiles) HalfCopy {
	return HalfCopy{
		Why: fmt.Sprintf("%s is not known to be whole: a move of VM %q from host %q to host %q, begun at %s, copies it or "+
			"was interrupted while it copied", file, f.VM, f.From, h.Name, f.Began.Format(time.RFC3339)),
		Remedy: fmt.Sprintf("If the move is under way, wait for its end. If it was interrupted and host %q has the VM, "+
			"bring that host back without fenced: what changes the VM there next removes the copy. If the VM is lost, restore "+
			"the file from a backup, or remove it. Then remove the record on host %q: find the secret %s with "+
			"\"virsh secret-list\", and run \"virsh secret-undefine <UUID>\".", f.From, h.Name, ArrivalOf(of).UsageID()),
	}
}

// arrivingWith returns, by path, those of the files with which a VM arrives, and its UUID. The path may be another one
// than the recorded one, for example through a symbolic link: the host is asked for that, if it can compare files. It
// compares each file with all that arrive at once, and none after it was late once.
func (h *Host) arrivingWith(ctx context.Context, arriving map[string]ArrivingFiles, files []string) map[string]string {
	owners, found := map[string]string{}, map[string]string{}

	for _, of := range slices.Backward(slices.Sorted(maps.Keys(arriving))) {
		for _, at := range arriving[of].Paths {
			owners[at] = of
		}
	}

	recorded := slices.Sorted(maps.Keys(owners))
	late := h.Config.SameFile == nil || len(recorded) == 0

	for _, file := range files {
		of := owners[path.Clean(file)]

		if of == "" && !late && path.IsAbs(file) {
			var same []string
			if same, late = h.leadingTo(ctx, file, recorded); len(same) > 0 {
				of = owners[same[0]]
			}
		}

		if of != "" {
			found[file] = of
		}
	}

	return found
}

// leadingTo returns those of the paths that lead to the file, as far as the host says, and whether it was late.
func (h *Host) leadingTo(ctx context.Context, file string, paths []string) (same []string, late bool) {
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()

	// If the host can't compare all of them, the result has those that it can.
	same, _ = h.Config.SameFile(ctx, file, paths...)

	return same, ctx.Err() != nil
}

// VerifyNoHalfCopy returns ErrBusy if a file of a host isn't known to be whole, because of a move that copies it there.
// It asks the host now. The file of a VM that has arrived is whole, also if the record of its move is still there.
func (inv *Inventory) VerifyNoHalfCopy(ctx context.Context, host, file string) error {
	h, err := inv.UsableHost(host)
	if err != nil {
		return err
	}

	arriving, err := readArriving(ctx, h)
	if err != nil {
		return err
	}

	return inv.verifyWhole(ctx, h, arriving, file)
}

// verifyWhole asks the hosts only for VMs that may arrive with the file. It removes those that have arrived from
// arriving.
func (inv *Inventory) verifyWhole(ctx context.Context, h *Host, arriving map[string]ArrivingFiles, file string) error {
	for {
		of, is := h.arrivingWith(ctx, arriving, []string{file})[file]
		if !is {
			return nil
		}

		vm, err := inv.FindNow(ctx, of, LastKnown{})
		if err != nil || vm.On != h || vm.PersistentSpec == nil || vm.Migrating {
			half := h.halfCopy(file, of, arriving[of])

			return &Error{Host: h.Name, Kind: ErrBusy, Detail: half.Why, Remedy: half.Remedy, Next: Retry}
		}

		delete(arriving, of)
	}
}
