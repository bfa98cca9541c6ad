/** One line of stdout: a JSON object with the id of its command. */
final class Answer {
	private final StringBuilder json = new StringBuilder("{");

	Answer add(String key, long value) {
		return raw(key, Long.toString(value));
	}

	Answer add(String key, String value) {
		StringBuilder quoted = new StringBuilder("\"");
		for (char c : value.toCharArray()) {
			if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
				quoted.append(String.format("\\u%04x", (int) c));
			else
				quoted.append(c);
		}
		return raw(key, quoted.append('"').toString());
	}

	/** The outcome, named as the C library names it. */
	Answer code(String code) {
		return add("code", code);
	}

	Answer result(long result) {
		return add("result", result).code("OK");
	}

	private Answer raw(String key, String text) {
		json.append(json.length() > 1 ? "," : "").append('"').append(key).append("\":");
		json.append(text);
		return this;
	}

	void send() {
		synchronized (System.out) {
			System.out.println(json.append('}'));
			System.out.flush();
		}
	}
}
