package domain

import (
	"fmt"

	"github.com/beevik/etree"
)

const (
	// ownDistance is the distance of a NUMA cell to itself. maxDistance is the largest distance: the cell can't be
	// reached.
	ownDistance = 10
	maxDistance = 255
)

// numaDistances are the distances of a cell to other cells. The distance to itself is fixed.
var numaDistances = Attribute{
	Name: "distances", Kind: Texts, Read: readDistances, Write: writeDistances, Check: distances,
	Doc: "Distances to other cells by their number, such as `{ 1 = 21 }`: from 11 to 254, or 255 for a cell that can't " +
		"be reached. The other cell lists its distance to this one, too. Not listed: 20.",
}

func readDistances(cell *etree.Element) string {
	all := map[string]string{}
	for _, sibling := range children(child(cell, "distances"), "sibling") {
		if id := attr(sibling, "id"); id != attr(cell, "id") {
			all[id] = attr(sibling, "value")
		}
	}
	return FormatTexts(all)
}

func writeDistances(cell *etree.Element, value string) error {
	dropChildren(cell, "distances")
	all := ParseTexts(value)
	if len(all) == 0 {
		return nil
	}
	list := add(cell, "distances")
	for _, id := range sortedKeys(all) {
		add(list, "sibling", "id", id, "value", all[id])
	}
	return nil
}

// distances checks the numbers of the cells and the distances. libvirt 9.0 crashes on some distances that are too
// small.
func distances(value string) string {
	for id, text := range ParseTexts(value) {
		if _, ok := number(id); !ok {
			return fmt.Sprintf("%q isn't the number of a cell.", id)
		}
		if n, ok := number(text); !ok || n <= ownDistance || n > maxDistance {
			return fmt.Sprintf("The distance %q to cell %s isn't a number from %d to %d.", text, id, ownDistance+1, maxDistance)
		}
	}
	return ""
}

// validateDistances checks that distances are to other cells, and that both cells list them. libvirt adds a distance
// that only one cell lists to the other cell, and each plan would undo that.
func validateDistances(cells map[string]Row, c *checker) {
	for _, key := range sortedKeys(cells) {
		path := join(join(cpuNUMA, key), "distances")
		for _, other := range sortedKeys(ParseTexts(cells[key]["distances"])) {
			c.require(other != key, path, fmt.Sprintf("The distance of a cell to itself is always %d.", ownDistance))
			c.require(cells[other] != nil, path, "There is no cell "+other+".")
			_, both := ParseTexts(cells[other]["distances"])[key]
			c.require(both || other == key || cells[other] == nil, path, fmt.Sprintf(
				"Cell %s lists no distance to cell %s. Both cells list it.", other, key))
		}
	}
}
