"use strict";
/* A search by the browser alone, also of pages that are opened as files. It finds the sections that
 * have a word that begins with each of those asked for, and shows those first whose heading or title
 * has them. `?q=` begins with one. */
(() => {
	const LIMIT = 40, BEFORE = 60, AFTER = 180;
	const root = document.body.dataset.root;
	const main = document.querySelector("main");
	const found = document.createElement("main");
	const form = document.createElement("form");
	const input = document.createElement("input");
	let index = null;

	form.className = "search";
	form.setAttribute("role", "search");
	input.type = "search";
	input.name = "q";
	input.placeholder = "Search";
	input.autocomplete = "off";
	input.setAttribute("aria-label", "Search in all pages");
	form.append(input);
	document.querySelector("header").append(form);
	found.className = "found";
	found.setAttribute("aria-live", "polite");

	/* The index is read when it is first needed. A script, since a file may not fetch another. */
	function load() {
		if (document.getElementById("search-index"))
			return;
		const script = document.createElement("script");
		script.id = "search-index";
		script.src = root + "search-index.js";
		script.onload = () => {
			index = window.lockkeeperIndex;
			show();
		};
		document.head.append(script);
	}

	/* What finds a word where it begins: "acquire" in lk_lock_acquire, "lease" not in "release". */
	function beginning(word) {
		return new RegExp("(?<![a-z0-9])" + word.replace(/[^\w]/g, "\\$&"), "i");
	}

	function weight([page, , heading, text], words) {
		const title = index.pages[page][1];
		let sum = 0;
		for (const word of words) {
			const begins = beginning(word);
			const headed = begins.test(heading), titled = begins.test(title);
			if (!headed && !titled && !begins.test(text))
				return 0;
			sum += 1 + 8 * headed + 4 * titled +
				20 * (heading.toLowerCase().replace("()", "") === word);
		}
		return sum;
	}

	/* A piece of the text around the first of the words, with each of them marked. */
	function piece(text, words) {
		const places = words.map(word => text.search(beginning(word))).filter(place => place >= 0);
		const near = Math.max(0, (places.length ? Math.min(...places) : 0) - BEFORE);
		const begin = near && text.indexOf(" ", near) + 1;
		const shown = text.slice(begin, begin + BEFORE + AFTER);
		const made = document.createElement("p");
		const any = new RegExp("(" + words.map(word => beginning(word).source).join("|") + ")", "i");
		made.append(begin ? "… " : "");
		for (const [number, part] of shown.split(any).entries()) {
			if (number % 2) {
				const mark = document.createElement("mark");
				mark.textContent = part;
				made.append(mark);
			} else {
				made.append(part);
			}
		}
		made.append(begin + shown.length < text.length ? " …" : "");
		return made;
	}

	function row([page, mark, heading, text], words) {
		const made = document.createElement("li");
		const link = document.createElement("a");
		const where = document.createElement("small");
		link.href = root + index.pages[page][0] + (mark ? "#" + mark : "");
		link.textContent = heading;
		link.onclick = () => leave();
		where.textContent = " " + index.pages[page][1];
		made.append(link, where, piece(text, words));
		return made;
	}

	function leave() {
		input.value = "";
		found.replaceWith(main);
	}

	function show() {
		const words = input.value.toLowerCase().split(/\s+/).filter(word => word);
		if (!words.length)
			return leave();
		if (!index)
			return load();
		const hits = index.sections.map(section => [weight(section, words), section])
			.filter(hit => hit[0]).sort((a, b) => b[0] - a[0]);
		const title = document.createElement("h1");
		const list = document.createElement("ol");
		title.textContent = hits.length > LIMIT ? `The first ${LIMIT} of ${hits.length} sections`
			: hits.length === 1 ? "1 section" : `${hits.length || "No"} sections`;
		list.append(...hits.slice(0, LIMIT).map(hit => row(hit[1], words)));
		found.replaceChildren(title, list);
		main.replaceWith(found);
	}

	input.addEventListener("focus", load);
	input.addEventListener("input", show);
	form.addEventListener("submit", event => event.preventDefault());
	document.addEventListener("keydown", event => {
		if (event.key === "/" && document.activeElement !== input) {
			event.preventDefault();
			input.focus();
		} else if (event.key === "Escape") {
			leave();
		}
	});
	input.value = new URLSearchParams(location.search).get("q") || "";
	if (input.value)
		show();
})();
