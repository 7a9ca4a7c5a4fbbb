package domain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

const (
	// hugePages is the path of the size of the huge pages, cellPages that of the sizes of single NUMA cells.
	hugePages = "memory.huge_pages"
	cellPages = "memory.huge_pages_by_cell"
	// hugeDefault stands for huge pages of the host's default size.
	hugeDefault = "default"
)

// hugePageSizes are the attributes for the huge pages. The cells come first: what is written of all memory then decides
// whether pages of the default size are left, which are no pages of any size.
var hugePageSizes = []Attribute{
	{
		Name: "huge_pages_by_cell", Kind: Texts, Read: readCellPages, Write: writeCellPages, Normal: normalSizes,
		Check: checkCellPages, Why: whenAllocated,
		Doc: "Size of the huge pages of single cells of `cpu.numa`, by their number: `{ 0 = \"1Gi\" }`. Cells that it " +
			"doesn't list have `huge_pages`. `{}` lists none.",
	},
	{
		Name: "huge_pages", Read: readHugePages, Write: writeHugePages, Normal: normalPages, Unset: None,
		Check: func(value string) string {
			if isPageSize(value) || value == hugeDefault {
				return ""
			}
			return `It isn't the size of a page, such as "2Mi" or "1Gi", nor "default" or "none".`
		},
		Why: whenAllocated,
		Doc: "Size of the huge pages that the memory consists of, such as `2Mi` or `1Gi`, or `default` for the host's " +
			"default size. The host must have enough of them. `none` removes it.",
	},
}

// pageSize parses a declared page size: 2Mi, 1Gi, 2048Ki.
func pageSize(value string) (uint64, bool) {
	at := strings.IndexFunc(value, func(r rune) bool { return r < '0' || r > '9' })
	if at <= 0 {
		return 0, false
	}
	bytes, ok := parseSize(value[:at], strings.TrimSuffix(value[at:], "B")+"B")
	return bytes, ok && bytes > 0 && strings.HasSuffix(value, "i")
}

func isPageSize(value string) bool {
	page, ok := pageSize(value)
	return ok && page&(page-1) == 0
}

func normalPages(value string) string {
	if bytes, ok := pageSize(value); ok {
		return formatPage(bytes)
	}
	return value
}

// checkCellPages checks the numbers of the cells and the sizes. libvirt has no page of the default size for a cell.
func checkCellPages(value string) string {
	sizes := ParseTexts(value)
	for _, cell := range sortedKeys(sizes) {
		if _, ok := number(cell); !ok {
			return fmt.Sprintf("%q isn't the number of a cell.", cell)
		}
		if !isPageSize(sizes[cell]) {
			return fmt.Sprintf(`%q isn't the size of a page, such as "2Mi" or "1Gi".`, sizes[cell])
		}
	}
	return ""
}

// checkDefaultPages checks that pages of the host's default size are those of all memory: libvirt has no page of that
// size in addition to others.
func checkDefaultPages(value func(attribute string) string) (attribute, problem string) {
	if value("huge_pages") == hugeDefault && value("huge_pages_by_cell") != "" {
		return "huge_pages", `With huge_pages_by_cell, it can't be "default". Say which size.`
	}
	return "", ""
}

// pagesOfCell returns the size of the huge pages that a NUMA cell of the guest consists of, which may be DefaultPages,
// and the attribute that asks for them; "" if none does. A guest without cells has cell 0.
func (f Values) pagesOfCell(cell int) (size uint64, path string) {
	if own, ok := ParseTexts(f[cellPages])[strconv.Itoa(cell)]; ok {
		size, ok = pageSize(own)
		return size, map[bool]string{true: cellPages}[ok]
	}
	if f[hugePages] == hugeDefault {
		return DefaultPages, hugePages
	}
	size, ok := pageSize(f[hugePages])
	return size, map[bool]string{true: hugePages}[ok]
}

// PagesPath returns the attribute that asks for huge pages: that for all memory, or that for single cells if only this
// one does.
func (f Values) PagesPath() string {
	if _, path := (Values{hugePages: f[hugePages]}).pagesOfCell(0); path == "" && f[cellPages] != "" {
		return cellPages
	}
	return hugePages
}

// pageSizes returns the sizes of the huge pages that the values ask for, each with the attribute that does.
func (f Values) pageSizes() map[uint64]string {
	sizes := map[uint64]string{}
	for cell := range ParseTexts(f[cellPages]) {
		n, _ := number(cell)
		if size, path := f.pagesOfCell(n); path != "" {
			sizes[size] = path
		}
	}
	f = Values{hugePages: f[hugePages]}
	if size, path := f.pagesOfCell(0); path != "" {
		sizes[size] = path
	}
	return sizes
}

// pagesOf returns how many bytes of the memory of NUMA cells are huge pages, by page size, which may be DefaultPages.
func (f Values) pagesOf(memory map[int]uint64) map[uint64]uint64 {
	use := map[uint64]uint64{}
	for cell, bytes := range memory {
		size, path := f.pagesOfCell(cell)
		ordinary := path == cellPages && size < mib
		if path != "" && bytes > 0 && !ordinary {
			use[size] += bytes
		}
	}
	return use
}

// pages returns how many bytes of the VM's memory are huge pages, by page size, which may be DefaultPages.
func (s Spec) pages() map[uint64]uint64 {
	if s.Values[cellPages] == "" {
		return s.Values.pagesOf(map[int]uint64{0: s.UsableMemory()})
	}
	return s.Values.pagesOf(s.memoryOfCells())
}

// pages is that of Spec, where memory that was plugged in counts in its NUMA cell. s is the Spec of the definition.
func (d *Definition) pages(s Spec) map[uint64]uint64 {
	if s.Values[cellPages] == "" {
		return s.pages()
	}
	return s.Values.pagesOf(d.memoryOfCells(s.UsableMemory()))
}

// memoryOfCells returns the memory of each NUMA cell of the guest, with the memory devices in it. A guest without cells
// has all of its memory in cell 0. So has that of which the spec doesn't say the cell: memory that was plugged in.
func (s Spec) memoryOfCells() map[int]uint64 {
	memory, left := map[int]uint64{}, s.UsableMemory()
	has := func(cell, amount string) {
		n, _ := number(cell)
		bytes, _ := strconv.ParseUint(amount, 10, 64)
		memory[n] += bytes
		left -= min(left, bytes)
	}
	for key, cell := range ParseTable(s.Values[cpuNUMA]) {
		has(key, cell["memory"])
	}
	for _, device := range s.VirtioMem {
		has(device["node"], device["size"])
	}
	memory[0] += left
	return memory
}

// memoryOfCells returns the memory of each NUMA cell in bytes, plugged memory included: only the definition says in
// which cell that is. all is the memory of a guest without cells.
func (d *Definition) memoryOfCells(all uint64) map[int]uint64 {
	cells := children(child(d.root(), "cpu", "numa"), "cell")
	if len(cells) == 0 {
		return map[int]uint64{0: all}
	}
	memory := map[int]uint64{}
	for i, e := range cells {
		cell, ok := number(attr(e, "id"))
		if !ok {
			cell = i // As libvirt numbers them.
		}
		memory[cell], _ = parseSize(attr(e, "memory"), attr(e, "unit"))
	}
	for _, e := range d.devices("memory") {
		cell, _ := number(text(child(e, "target", "node")))
		bytes, ok := size(child(e, "target", "size"))
		if ok && child(e, "source", "path") == nil { // A file isn't made of the host's pages.
			memory[cell] += bytes
		}
	}
	return memory
}

// WithPagesOf returns the spec completed with the cells and the page sizes that the VM keeps, if the spec changes its
// huge pages.
func (s Spec) WithPagesOf(have Values) Spec {
	if len(s.Values.pageSizes()) == 0 {
		return s
	}
	for _, path := range []string{cpuNUMA, cellPages, hugePages} {
		s = s.WithFact(path, have[path])
	}
	return s
}

// validatePages checks that the VM's memory can consist of the declared huge pages: QEMU doesn't start with memory, or
// a NUMA cell, that is less than a page. A memfd consists of whole pages; a file is rounded up.
func validatePages(s Spec, c *checker) {
	whole := s.Values["memory.source"] == "memfd"
	check := func(cell int, what string, bytes uint64) {
		page, path := s.Values.pagesOfCell(cell)
		switch {
		case page == 0 || bytes == 0:
		case bytes < page:
			c.require(false, path, fmt.Sprintf("A page of %s doesn't fit into %s of %s.", formatPage(page), what,
				formatPage(bytes)))
		case whole && bytes%page != 0:
			c.require(false, path, fmt.Sprintf("With the source memfd, %s of %s must be whole pages of %s.", what,
				formatPage(bytes), formatPage(page)))
		}
	}
	if sizes := s.Values.pageSizes(); len(sizes) > 0 {
		c.require(s.Values["memory.source"] != "anonymous", "memory.source",
			"Huge pages come from a file or a memfd, not from anonymous memory. Leave it out.")
		c.require(s.Values["memory.allocation"] != "ondemand", "memory.allocation",
			`Huge pages are allocated at once, not "ondemand". Leave it out.`)
	}
	cells := ParseTable(s.Values[cpuNUMA])
	if len(cells) == 0 && s.Values[cellPages] == "" {
		check(0, "memory.size", pick(s.Memory.Size, nil, 0))
	}
	for _, key := range sortedKeys(cells) {
		n, _ := number(key)
		bytes, _ := strconv.ParseUint(cells[key]["memory"], 10, 64)
		check(n, "the memory of cell "+key, bytes)
	}
	for _, key := range sortedKeys(ParseTexts(s.Values[cellPages])) {
		c.require(len(cells) == 0 || cells[key] != nil, cellPages, noCell(key))
	}
}

// checkPages checks that a change leaves a NUMA cell for each page, and keeps the pages that nothing is declared for: a
// VM with pages of the default size has no others. before is the definition before the change.
func (d *Definition) checkPages(want Spec, before *Definition) error {
	_, all := want.Values[hugePages]
	_, ofCells := want.Values[cellPages]
	_, cells := want.Values[cpuNUMA]
	sizes := readCellPages(d.root())
	switch was := readHugePages(before.root()); {
	case !all && was != readHugePages(d.root()):
		return Problem{cellPages, "The VM has huge pages of the host's default size. Declare huge_pages, too."}
	case !ofCells && sizes != readCellPages(before.root()):
		return Problem{hugePages, "Single NUMA cells have huge pages. Declare huge_pages_by_cell, too."}
	case !ofCells && !cells:
		return nil
	}
	there := ParseTable(numaCells.read(d.root()))
	for _, key := range sortedKeys(ParseTexts(sizes)) {
		if there[key] == nil { // Of a guest without cells, libvirt takes the pages of cell 0 for those of all memory.
			return Problem{cellPages, noCell(key)}
		}
	}
	return nil
}

func noCell(key string) string { return "cpu.numa has no cell " + key + "." }

// pagesIn returns the page of all memory, nil if there is none, and the pages of single NUMA cells.
func pagesIn(root *etree.Element) (all *etree.Element, ofCells []*etree.Element) {
	for _, page := range children(child(root, "memoryBacking", "hugepages"), "page") {
		if attr(page, "nodeset") == "" {
			all = page
		} else {
			ofCells = append(ofCells, page)
		}
	}
	return all, ofCells
}

// readHugePages reads the page size that applies to all NUMA cells without a page size of their own.
func readHugePages(root *etree.Element) string {
	all, ofCells := pagesIn(root)
	switch {
	case all != nil:
		return readPage(all)
	case len(ofCells) > 0 || child(root, "memoryBacking", "hugepages") == nil:
		return ""
	default:
		return hugeDefault
	}
}

// readPage returns the size of a page, "" if it can't be read.
func readPage(page *etree.Element) string {
	bytes, ok := parseSize(attr(page, "size"), attr(page, "unit"))
	if !ok {
		return ""
	}
	return formatKiB(bytes) + "Ki"
}

func readCellPages(root *etree.Element) string {
	_, ofCells := pagesIn(root)
	sizes := map[string]string{}
	for _, page := range ofCells {
		set, _ := parseSet(attr(page, "nodeset"))
		for _, cell := range set {
			sizes[strconv.Itoa(cell)] = readPage(page)
		}
	}
	return FormatTexts(sizes)
}

func writeHugePages(root *etree.Element, value string) error {
	all, ofCells := pagesIn(root)
	bytes, ok := pageSize(value)
	switch {
	case value == "":
		drop(all)
		dropPages(root)
	case ok:
		if all == nil {
			all = add(ensurePages(root), "page")
		}
		setAttr(all, "size", formatKiB(bytes))
		setAttr(all, "unit", "KiB")
	default: // Pages of the default size are those of all memory.
		ensurePages(root)
		for _, page := range append(ofCells, all) {
			drop(page)
		}
	}
	return nil
}

// writeCellPages writes one page for each size.
func writeCellPages(root *etree.Element, value string) error {
	_, ofCells := pagesIn(root)
	for _, page := range ofCells {
		drop(page)
	}
	cells := map[uint64][]int{}
	for key, size := range ParseTexts(value) {
		cell, _ := number(key)
		bytes, _ := pageSize(size)
		cells[bytes] = append(cells[bytes], cell)
	}
	if len(cells) == 0 {
		dropPages(root)
		return nil
	}
	huge := ensurePages(root)
	for _, bytes := range slices.Sorted(maps.Keys(cells)) {
		add(huge, "page", "size", formatKiB(bytes), "unit", "KiB", "nodeset", formatSet(cells[bytes]))
	}
	return nil
}

func ensurePages(root *etree.Element) *etree.Element {
	return ensure(ensure(root, "memoryBacking", "memtune", "currentMemory", "memory"), "hugepages")
}

// dropPages removes the element of the pages if it has none left.
func dropPages(root *etree.Element) {
	if all, ofCells := pagesIn(root); all != nil || len(ofCells) > 0 {
		return
	}
	backing := child(root, "memoryBacking")
	dropChildren(backing, "hugepages")
	dropEmpty(backing, root)
}
