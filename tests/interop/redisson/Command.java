import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** One line of stdin: {@code id thread verb key=value …}, values %XX-encoded. */
final class Command {
	final long id;
	final String thread;
	final String verb;
	private final Map<String, String> arguments = new HashMap<>();

	Command(String line) {
		String[] words = line.trim().split(" +");
		id = Long.parseLong(words[0]);
		thread = words[1];
		verb = words[2];
		for (int i = 3; i < words.length; i++) {
			int equals = words[i].indexOf('=');
			arguments.put(words[i].substring(0, equals), decode(words[i].substring(equals + 1)));
		}
	}

	String text(String key, String otherwise) {
		return arguments.getOrDefault(key, otherwise);
	}

	String name() {
		return arguments.get("name");
	}

	long number(String key, long otherwise) {
		String text = arguments.get(key);
		return text == null ? otherwise : Long.parseLong(text);
	}

	private static String decode(String text) {
		ByteArrayOutputStream bytes = new ByteArrayOutputStream();
		byte[] in = text.getBytes(StandardCharsets.UTF_8);
		for (int i = 0; i < in.length; i++) {
			if (in[i] == '%') {
				bytes.write(Integer.parseInt(text.substring(i + 1, i + 3), 16));
				i += 2;
			} else {
				bytes.write(in[i]);
			}
		}
		return bytes.toString(StandardCharsets.UTF_8);
	}
}
